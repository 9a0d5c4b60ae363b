# SPDX-License-Identifier: Apache-2.0
"""The params structs of the kernels, parsed from the headers of the kernel library, their only declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from pillion.registry import REGISTRY

HEADERS = (
    *("choosing.h", "layers16.h", "layers4.h", "norms.h", "recurrent.h", "signal.h", "kernels.h"),
    *("scalar.h", "dsp.h", "mve.h", "host.h"),
)
"""The headers that declare kernels; each follows the headers whose structs it uses."""
NUMBERS: dict[str, np.dtype[np.generic]] = {"int32_t": np.dtype(np.int32), "float": np.dtype(np.float32)}
ARRAYS: dict[str, np.dtype[np.generic]] = {
    "int8_t": np.dtype(np.int8),
    "uint8_t": np.dtype(np.uint8),
    "int16_t": np.dtype(np.int16),
    "uint16_t": np.dtype(np.uint16),
    "int32_t": np.dtype(np.int32),
    "int64_t": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MACRO = re.compile(r"#define (\w+_FIELDS) ((?:[^\n]*\\\n)*[^\n]*)")
_STRUCT = re.compile(r"typedef struct \{([^{}]*)\} (\w+);|typedef (\w+) ([\w, \n]+);")
_FIELDS = re.compile(r"(const )?(\w+) ([^;]+);")


@dataclass(frozen=True)
class ParamsField:
    """A field of a params struct: a number, or a pointer to an array in flash."""

    name: str
    dtype: np.dtype[np.generic]
    is_pointer: bool

    def wrong(self, value: object) -> str:
        """Returns the reason why a value does not fit this field; empty if it does."""
        expected = f"{'an array of ' if self.is_pointer else 'of type '}{self.dtype}"
        if isinstance(value, np.ndarray):
            fits = self.is_pointer and value.dtype == self.dtype
            return "" if fits else f"{self.name} is {expected}, not an array of {value.dtype}"
        fits = not self.is_pointer and isinstance(
            value, float if self.dtype.kind == "f" else (int, np.integer)
        )
        return "" if fits else f"{self.name} is {expected}, not {type(value).__name__}"


def kernel_folder() -> Path:
    """Returns the folder of the kernel library: inside an installed package, or next to `src` in a checkout."""
    package = Path(__file__).resolve().parents[2]
    inside, checkout = package / "kernels", package.parents[1] / "kernels"
    return inside if inside.is_dir() else checkout


def kernel_folders() -> tuple[Path, ...]:
    """Returns the folders of kernels: the library's, and those of plug-ins."""
    return (kernel_folder(), *REGISTRY.kernel_folders)


def kernel_file(path: str) -> Path:
    """Returns a file of the kernel library or of a plug-in by its path below the folder."""
    candidates = [folder / path for folder in kernel_folders()]
    return next((candidate for candidate in candidates if candidate.exists()), candidates[0])


def public_headers() -> list[Path]:
    """Returns the headers that every kernel may include."""
    return [
        header
        for folder in kernel_folders()
        for header in sorted((folder / "include" / "pillion").glob("*.h"))
    ]


def params_structs() -> Mapping[str, tuple[ParamsField, ...]]:
    """Returns struct name → fields, for all headers. Several names may share one struct."""
    library, *others = kernel_folders()
    more = [header for header in public_headers() if not header.is_relative_to(library)] if others else []
    return _structs_of((*(library / "include" / "pillion" / header for header in HEADERS), *more))


@cache
def _structs_of(headers: tuple[Path, ...]) -> Mapping[str, tuple[ParamsField, ...]]:
    text = "\n".join(_COMMENT.sub("", header.read_text("utf-8")) for header in headers)
    macros = {name: body.replace("\\\n", " ") for name, body in _MACRO.findall(text)}
    structs: dict[str, tuple[ParamsField, ...]] = {}
    for body, name, same, others in _STRUCT.findall(_MACRO.sub("", text)):
        if name:
            structs[name] = tuple(_parse_struct_fields(_expand_field_macros(body, macros)))
        else:
            structs.update({other.strip(): structs[same] for other in others.split(",")})
    return structs


def _expand_field_macros(body: str, macros: Mapping[str, str]) -> str:
    """Returns the fields of a struct with all `_FIELDS` macros expanded."""
    while any(macro in body for macro in macros):
        body = re.sub(r"\b\w+_FIELDS\b", lambda match: macros[match[0]], body)
    return body


def _parse_struct_fields(body: str) -> Iterator[ParamsField]:
    for is_constant, kind, names in _FIELDS.findall(body):
        for name in names.split(","):
            plain = name.strip().lstrip("*")
            yield ParamsField(plain, (ARRAYS if is_constant else NUMBERS)[kind], bool(is_constant))


def order_params_fields(struct: str, values: Mapping[str, object]) -> dict[str, object]:
    """Returns the values of a struct in the order of its fields. Raises for missing, unknown and mistyped values."""
    fields = params_structs().get(struct)
    if fields is None:
        raise TypeError(f"no header of the kernel library declares {struct}")
    names = [field.name for field in fields]
    wrong = [f"{name} is missing" for name in names if name not in values]
    wrong += [f"there is no {name}" for name in values if name not in names]
    wrong += [field.wrong(values[field.name]) for field in fields if field.name in values]
    if any(wrong):
        raise TypeError(f"{struct}: {'; '.join(filter(None, wrong))}")
    return {name: values[name] for name in names}

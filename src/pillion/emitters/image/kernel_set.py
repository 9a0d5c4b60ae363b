# SPDX-License-Identifier: Apache-2.0
"""A kernel set: the sources that a firmware builds to run images, with a table of their kernels and a manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import pillion
from pillion.devices.cortex_m import CORES, Core
from pillion.emitters.c.manifest import MANIFEST, MOST_BYTES
from pillion.emitters.c.params_structs import kernel_folders, public_headers
from pillion.emitters.image.kernel_abi import ISAS, AbiKernel, isa_bits, kernel_abi
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, read_text, resolve_links
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.host_io.project_folders import Listing, ProjectWrite, check_paths, sha256

RUNTIME = ("pillion_image.c", "pillion_image_bind.c", "pillion_image_steps.h", "pillion_image.h")
GUARD = ("pillion_guard.c", "pillion_guard.h")
"""Files that run untrusted images on Armv8-M."""
DELEGATE = ("PillionBackend.cpp", "PillionSegments.h", "CMakeLists.txt")
"""Files that run images in ExecuTorch's runtime."""
TABLE, TABLE_HEADER = "pillion_kernels.c", "pillion_kernels.h"

_INCLUDE = re.compile(r'^\s*#\s*include "([^"/]+)"', re.MULTILINE)
_DEFINITION = re.compile(r"^(?!static)[A-Za-z_][\w \*]*?\b(pillion_\w+)\([^;{]*\)\s*\{", re.MULTILINE)
_NAME = re.compile(r"\bpillion_\w+")


@dataclass(frozen=True, kw_only=True)
class KernelSet:
    """The manifest of a kernel set, `manifest.json` in its folder."""

    pillion: str
    """The version of Pillion that wrote it."""
    abi: int
    """The hash of the kernels' declarations; images and kernel sets with the same hash fit together."""
    core: str
    kernels: tuple[str, ...]
    """The kernels of the set, sorted."""
    files: Mapping[str, str]
    """The other files and their SHA-256."""

    def __post_init__(self) -> None:
        check_paths(self.files)
        if self.core not in CORES:
            raise ValueError(f"there is no core {self.core!r}")

    def text(self) -> str:
        """Returns the text of the manifest."""
        return json.dumps(as_plain_data(self), indent=2) + "\n"


def kernel_set_files(numbers: Iterable[int], core: Core, delegate: bool = False) -> dict[str, Content]:
    """Returns path → content of a kernel set for a core, with the ExecuTorch delegate if wanted. Raises if the core does not
    run a kernel."""
    abi = kernel_abi()
    kernels = [abi.kernels[number] for number in sorted(set(numbers))]
    for kernel in kernels:
        _require_core(kernel, core)
    runtime = (*RUNTIME, *GUARD * core.is_armv8m, *DELEGATE * delegate)
    files: dict[str, Content] = {name: _runtime_file(name) for name in runtime}
    files |= {TABLE: _table(kernels, core), TABLE_HEADER: _runtime_file(TABLE_HEADER)}
    files |= {
        f"include/pillion/{path.name}": path.read_text("utf-8")
        for path in public_headers()
        if path.name != "host.h"
    }
    files |= {path: text for kernel in kernels for path, text in _sources(kernel.name).items()}
    kernel_set = KernelSet(
        pillion=pillion.__version__,
        abi=abi.hash,
        core=core.name,
        kernels=tuple(kernel.name for kernel in kernels),
        files={path: sha256(content) for path, content in sorted(files.items())},
    )
    return {**files, MANIFEST: kernel_set.text()}


def kernels_of_core(core: Core) -> list[int]:
    """Returns the numbers of all kernels that a core runs and that programs for it may call."""
    return [kernel.number for kernel in kernel_abi().kernels if core.runs(kernel.isa)]


def write_kernel_set(files: Mapping[str, Content], folder: Path, force: bool = False) -> None:
    """Writes a kernel set, as projects are written: it replaces an earlier one, but no file of the user."""
    ProjectWrite(resolve_links(folder), files, MANIFEST, _earlier_set, force).write()


def read_kernel_set(file: Path) -> KernelSet:
    """Reads the manifest of a kernel set, or that in a folder."""
    path = file / MANIFEST if file.is_dir() else file
    try:
        return object_from_json(
            KernelSet, parse_strict_json(read_text(path, "manifest of a kernel set", MOST_BYTES))
        )
    except ValueError as error:
        raise PillionError(
            f"{path} is no manifest of a kernel set",
            rule="manifest.json of a folder that `pillion kernels` wrote",
            here=str(error),
            help="pillion kernels --all --core CORE -o FOLDER/ writes one",
        ) from None


def require_kernels(kernel_set: KernelSet, core: Core, names: Iterable[str]) -> None:
    """Raises if a firmware with a kernel set cannot run an image for `core` with these kernels."""
    set_core = CORES[kernel_set.core]
    foreign = [isa for isa in ISAS if core.runs(isa) and not set_core.runs(isa)]
    missing = sorted(set(names) - set(kernel_set.kernels))
    if kernel_set.abi != kernel_abi().hash:
        what, here = (
            "another version of the kernels",
            f"Pillion {kernel_set.pillion} wrote the set, this is {pillion.__version__}",
        )
        help = "compile with the version that wrote the set, or build the firmware with a new one"
    elif foreign and missing:
        what, here = "another core", f"the set is for {set_core.name}, the model for {core.name}"
        help = f"--target {set_core.name}"
    elif missing:
        what, here = "too few kernels", f"missing: {', '.join(missing)}"
        help = "write the set with --for this image, too, or with --all, and build the firmware anew"
    else:
        return
    raise PillionError(
        f"the firmware has {what}",
        rule="an image calls kernels that are in the firmware's kernel set (--kernels)",
        here=here,
        help=help,
    )


def _earlier_set(folder: Path) -> Listing | None:
    try:
        return Listing(read_kernel_set(folder).files, is_sealed=True)
    except PillionError:
        return None


def _require_core(kernel: AbiKernel, core: Core) -> None:
    if not core.runs(kernel.isa):
        fitting = [name for name, one in CORES.items() if one.runs(kernel.isa)]
        raise PillionError(
            f"{core.name} does not run {kernel.name}",
            rule="a kernel set holds kernels for the instructions of its core",
            here=f"--core {core.name}, and the kernel is for {kernel.isa.value.upper()}",
            help=f"--core {fitting[-1]}, or compile the model for {core.name}",
        )


def _runtime_file(name: str) -> str:
    return (resources.files("pillion.emitters.image") / "runtime" / name).read_text("utf-8")


def _sources(name: str) -> dict[str, str]:
    """Returns the sources of a kernel and of the functions that it calls, with their private headers."""
    files: dict[str, str] = {}
    waiting = [_definitions()[name]]
    while waiting:
        source = waiting.pop()
        path = f"src/{source.parent.name}/{source.name}"
        if path in files:
            continue
        files[path] = source.read_text("utf-8")
        private = [source.parent / header for header in _INCLUDE.findall(files[path])]
        called = [_definitions()[one] for one in _NAME.findall(files[path]) if one in _definitions()]
        waiting += [header for header in private if header.is_file()] + called
    return files


@cache
def _definitions() -> Mapping[str, Path]:
    """Returns function → the file that defines it, for all libraries that products use."""
    folders = [folder / isa.value for folder in kernel_folders() for isa in ISAS]
    files = [file for folder in folders for file in sorted(folder.glob("*.c"))]
    return {name: file for file in files for name in _DEFINITION.findall(file.read_text("utf-8"))}


def _table(kernels: list[AbiKernel], core: Core) -> str:
    """Returns the C of the table of kernels."""
    places = [0] * len(kernel_abi().kernels)
    for place, kernel in enumerate(kernels):
        places[kernel.number] = place + 1
    pointers = {kernel.pointers: None for kernel in kernels if kernel.pointers}
    numbers = {some: number for number, some in enumerate(pointers)}
    lines = [
        "/* Generated by `pillion kernels`. Do not edit. */",
        f'#include "{TABLE_HEADER}"',
        *(f'#include "pillion/{header}"' for header in sorted({kernel.header for kernel in kernels})),
        "",
        "#include <stddef.h>",
        *(
            f"\nstatic const uint8_t pointers_{n}[] = {{{', '.join(map(str, some))}}};"
            for some, n in numbers.items()
        ),
        *(line for kernel in kernels for line in _adapter(kernel)),
        "\nstatic const pillion_kernel kernels[] = {",
        *(_entry(kernel, numbers) for kernel in kernels),
        *([] if kernels else ["    {0},"]),
        "};\n\nstatic const uint16_t places[] = {",
        *(f"    {', '.join(map(str, places[i : i + 24]))}," for i in range(0, len(places), 24)),
        "};\n",
        "const pillion_kernel_set pillion_kernels = {",
        f"    .abi = {kernel_abi().hash}u,",
        f"    .isas = {isa_bits(isa for isa in ISAS if core.runs(isa))},",
        f"    .count = {len(places)},\n    .places = places,\n    .kernels = kernels,\n}};",
    ]
    return "\n".join(lines) + "\n"


def _adapter(kernel: AbiKernel) -> Iterator[str]:
    """Yields the function that calls a kernel with operands from an array."""
    arguments = ["params"]
    for i, kind in enumerate(kernel.operands):
        arguments.append(f"(uint32_t)(uintptr_t)operands[{i}]" if i == kernel.row else f"operands[{i}]")
        assert "*" in kind or i == kernel.row
    yield f"\nstatic void call_{kernel.number}(const void *params, void *const *operands) {{"
    yield f"    {kernel.name}({', '.join(arguments)});\n}}"
    # On a Cortex-M each field has the size of a word, so that the size of the struct says where each lies.
    size = f"sizeof({kernel.name}_params) == {4 * len(kernel.fields)}"
    yield f"typedef char layout_of_{kernel.number}[sizeof(void *) != 4 || {size} ? 1 : -1];"


def _entry(kernel: AbiKernel, numbers: Mapping[tuple[int, ...], int]) -> str:
    pointers = f"pointers_{numbers[kernel.pointers]}" if kernel.pointers else "NULL"
    row = 255 if kernel.row is None else kernel.row
    facts = (len(kernel.pointers), len(kernel.fields), len(kernel.operands), row, kernel.alignment)
    return f"    {{call_{kernel.number}, {pointers}, {', '.join(map(str, facts))}}}, /* {kernel.name} */"

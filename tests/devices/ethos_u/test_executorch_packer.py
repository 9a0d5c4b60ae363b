# SPDX-License-Identifier: Apache-2.0
"""Payloads beside those that ExecuTorch packs: its own packer is handed our segments, and the bytes are compared.

That packer hands files of another kind to Vela; here it is given one that reads TFLite under the name that it expects."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import pillion
from ethos_streams import ARITHMETIC, compiled, needs_vela, tflite_of
from pillion.devices.ethos_u.accelerators import ACCELERATORS
from pillion.devices.ethos_u.payload import compose_payload, parse_payload
from pillion.devices.ethos_u.vela import VelaSettings, compile_segment
from pillion.emitters import tflite
from pillion.ir.types import DType
from pillion.ops import Concat, Softmax

pytestmark = needs_vela
PACKED = ("ethos-u55-32", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256")


def _packer_file() -> Path | None:
    found = importlib.util.find_spec("executorch")
    places = (found.submodule_search_locations or []) if found else []
    files = [Path(place) / "backends" / "arm" / "arm_vela.py" for place in places]
    return next((file for file in files if file.is_file()), None)


@pytest.fixture(scope="module")
def pack() -> Iterator[Callable[[bytes, VelaSettings], bytes]]:
    """ExecuTorch's packer. Its file is run alone: the package that it lies in imports much that packing does not need."""
    file = _packer_file()
    if file is None:
        pytest.skip("ExecuTorch's Arm backend is not installed: pip install 'pillion[executorch]'")
    spec = importlib.util.spec_from_file_location("packer_of_executorch", file)
    assert spec is not None
    assert spec.loader is not None
    packer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packer)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packer, "vela", _reads_tflite(packer.vela))
        yield lambda file, settings: _packed(packer, file, settings)


def _reads_tflite(vela: ModuleType) -> ModuleType:
    """Vela's main module, but the file that it is handed last is TFLite, whatever it is called."""
    made = ModuleType("vela")

    def main(arguments: list[str]) -> object:
        *options, path = arguments
        renamed = Path(path).with_suffix(".tflite")
        shutil.copy(path, renamed)
        return vela.main([*options, str(renamed)])

    made.main = main  # type: ignore[attr-defined]  # a module has whatever it is given
    return made


def _packed(packer: ModuleType, file: bytes, settings: VelaSettings) -> bytes:
    names, values = settings.arguments[::2], settings.arguments[1::2]
    options = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
    with contextlib.redirect_stdout(io.StringIO()):
        made = packer.vela_compile(file, ["--output-format=raw", *options])
    return bytes(getattr(made, "processed_bytes", made))  # ExecuTorch 1.4 gives the bytes alone


@pytest.mark.parametrize("accelerator", PACKED)
@pytest.mark.parametrize("kind", [Concat, Softmax])
def test_examples_are_packed_alike(
    pack: Callable[[bytes, VelaSettings], bytes], kind: type, accelerator: str
) -> None:
    """Concatenations have several inputs, of which Vela keeps the order."""
    settings = VelaSettings(ACCELERATORS[accelerator])
    file = tflite_of([op for op in kind.examples() if op.results[0].dtype is DType.INT8][1])
    assert file is not None
    made = compose_payload(compiled(file, accelerator))
    assert made == pack(file, settings)
    assert compose_payload(parse_payload(made)) == made


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("name", "accelerators"),
    [
        ("ds_cnn", ("ethos-u55-64", "ethos-u85-256")),
        ("deep_autoencoder", ("ethos-u55-128",)),
        ("resnet8", ("ethos-u55-256", "ethos-u65-256")),
        ("mobilenet_v1_025", ("ethos-u55-128",)),
    ],
)
def test_networks_are_packed_alike(
    pack: Callable[[bytes, VelaSettings], bytes], name: str, accelerators: tuple[str, ...]
) -> None:
    program = pillion.compile(name, target="cortex-m55", io_dtype="int8", io_layout="nhwc")
    file = tflite.emit(program.graph.replace(arithmetic=ARITHMETIC))
    for accelerator in accelerators:
        for mode in ("Shared_Sram", "Sram_Only"):
            settings = VelaSettings(ACCELERATORS[accelerator], mode)
            assert compose_payload(compile_segment(file, settings)) == pack(file, settings)

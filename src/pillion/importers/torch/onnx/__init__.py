# SPDX-License-Identifier: Apache-2.0
"""Reads ONNX files as PyTorch modules. Quantize and dequantize nodes keep their scales and zero points; nothing but
the file itself is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pillion.errors import PillionError, error_reason
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.onnx.file_module import FAULTS, OnnxModule, is_known
from pillion.importers.torch.onnx.reading import MOST_ELEMENTS

OPSETS = range(7, 29)
"""Versions of the operator set that are read."""
MOST_BYTES = 1 << 30


def load_onnx(
    path: Path, input_size: int | tuple[int, int] | None = None
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the module of an ONNX file, and random example inputs. Free dimensions have the given size."""
    try:
        import onnx
    except ImportError as error:
        raise PillionError(
            f"{path} cannot be read",
            rule="ONNX files are read with the package onnx",
            here="it is not installed",
            help="pip install 'pillion[onnx]'",
        ) from error
    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        raise PillionError(
            f"{path} cannot be read",
            rule=f"a file of at most {MOST_BYTES:,} bytes",
            here="no such file, or a larger one",
            help="name an .onnx file",
        )
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except Exception as error:
        raise PillionError(
            f"{path} is no ONNX file",
            rule="a serialized ModelProto",
            here=type(error).__name__,
            help="write it again: torch.onnx.export(…, dynamo=True)",
        ) from error
    try:
        _require_plain(model)
        with quiet_torch():
            sizes = () if input_size is None else (input_size,) if isinstance(input_size, int) else input_size
            module = OnnxModule(model, onnx, _opset(model), sizes)
    except PillionError as error:
        raise PillionError(
            f"{path} cannot be read: {error.what}", rule=error.rule, here=error.here, help=error.help
        ) from error
    except FAULTS as error:
        raise PillionError(
            f"{path} has tensors that cannot be read",
            rule=f"tensors have as many bytes as their shapes say, and at most {MOST_ELEMENTS:,} elements",
            here=error_reason(error)[:200],
            help="write the file again; onnx.checker.check_model(path) says more",
        ) from error
    return module, tuple(module.inputs.values())


def _require_plain(model: Any) -> None:
    """Raises for opsets out of range, operators without a reading, and data in other files."""
    graph, opset = model.graph, _opset(model)
    if opset not in OPSETS:
        raise PillionError(
            f"it uses opset {opset}",
            rule=f"opsets {OPSETS[0]} to {OPSETS[-1]}",
            here=f"opset {opset}",
            help="onnx.version_converter.convert_version(onnx.load(path), 18)",
        )
    if outside := [t.name for t in graph.initializer if t.data_location == 1]:
        raise PillionError(
            "it has its weights in another file",
            rule="all data lies in the .onnx file",
            here=f"{len(outside)} tensors, `{outside[0][:80]}` first",
            help="for a file that you trust: onnx.save(onnx.load(path), 'whole.onnx')",
        )
    if unknown := sorted({f"{n.domain or 'ai.onnx'}::{n.op_type}" for n in graph.node if not is_known(n)}):
        raise PillionError(
            f"it has {len(unknown)} kinds of operators that are not read",
            rule="the operators that docs/guide/onnx.md lists",
            here=", ".join(unknown)[:400],
            help="compile the PyTorch module that it was exported from: net.py:Net",
        )


def _opset(model: Any) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


__all__ = ["OnnxModule", "load_onnx"]

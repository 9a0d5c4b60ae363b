# SPDX-License-Identifier: Apache-2.0
"""Read this first: `compile` is the list of stages, from a PyTorch model to a program for a chip.

    capture     the module becomes an exported program                          capture.py
    quantize    batch norms folded, int8 by torchao's pt2e                      quantize/
    import      a Graph: one small typed IR, images NHWC                        importers/torch_export.py
    passes      dequantize-op-quantize becomes integer ops; movement merged     passes/
    place       segments for the NPU, the rest for the CPU, and why             place/, devices/
    emit        kernels chosen, memory planned, C written                       emitters/, memory/

Whatever a stage cannot do it refuses with the rule, the value and the way out; nothing falls back silently.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal, Union, get_args

from pillion import passes
from pillion.boards.board import Optimize
from pillion.choices import one_of
from pillion.errors import PillionError
from pillion.ir.graph import Graph, model_name, want_computed_outputs
from pillion.ir.types import Array
from pillion.passes.int8_io import int8_io
from pillion.passes.integer import float_ops
from pillion.place import Wishes as PlacementWishes
from pillion.place import all_on_cpu, place
from pillion.program import Program
from pillion.targets import Target, find_target

if TYPE_CHECKING:
    import torch

    from pillion.quantize import FloatOp

IoDtype = Literal["float32", "int8"]
"""What goes in and comes out."""
IoLayout = Literal["nchw", "nhwc"]
"""How images do."""

Input = Union["torch.Tensor", Array]
Inputs = Input | Sequence[Input]
"""A tensor for each argument of `forward`; one alone needs no tuple."""
Watch = Callable[[str, Graph], None]
Progress = Callable[[int, int | None], None]


def compile(
    model: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: Inputs,
    *,
    target: str,
    calibrate: Iterable[Inputs] | str | Path | None = None,
    name: str | None = None,
    io_dtype: IoDtype = "float32",
    io_layout: IoLayout = "nchw",
    progress: Progress | None = None,
    placement: PlacementWishes | None = None,
    optimize: Optimize = "speed",
    watch: Watch | None = None,
) -> Program:
    """Compiles a model for a target. Without `calibrate`, the example inputs alone decide the ranges; it may be samples, or the
    path of a folder or file with samples.

    `placement` keeps ops on the CPU or demands the NPU for all; `optimize` chooses between fast and small code; `progress`
    hears of every calibration sample; `watch` sees the graph after each pass."""
    from pillion.importers.torch_export import import_program
    from pillion.quantize import QatModule, finish_training, ptq
    from pillion.quantize.given import as_inputs, as_model

    for option, value, allowed in (
        ("io_dtype", io_dtype, IoDtype),
        ("io_layout", io_layout, IoLayout),
        ("optimize", optimize, Optimize),
    ):
        one_of(option, value, get_args(allowed))
    chip = find_target(target)
    model, inputs = as_model(model), as_inputs(example_inputs, "example_inputs")
    wishes = chip.quantization
    name = name or (model.name if isinstance(model, QatModule) else type(model).__name__.lower())

    def refuse(ops: Sequence[FloatOp]) -> None:
        refuse_float(name, [(op.op, op.source, op.reason) for op in ops])

    if isinstance(model, QatModule):
        quantized = finish_training(model, inputs, calibrate, progress, wishes)
        refuse(quantized.float_ops)
    else:
        quantized = ptq(model, inputs, calibrate, progress, wishes, refuse)
    graph = import_program(quantized.graph_module, name, nhwc=io_layout == "nhwc")
    return finish(graph, chip, io_dtype, placement, watch, optimize)


def finish(
    graph: Graph,
    chip: Target,
    io_dtype: str = "float32",
    placement: PlacementWishes | None = None,
    watch: Watch | None = None,
    optimize: Optimize = "speed",
) -> Program:
    """From an imported graph to a program: the part that knows nothing of PyTorch."""
    graph = graph.replace(name=model_name(graph.name))
    if watch:
        watch("import", graph)
    graph = passes.run(graph, passes.PIPELINE + ((int8_io,) if io_dtype == "int8" else ()), watch)
    refuse_float(graph.name, [(f"{op.kind} {op.name}", op.source, reason) for op, reason in float_ops(graph)])
    want_computed_outputs(graph)
    if chip.npu is None:
        refuse_npu_wishes(chip, placement)
        return Program(graph, chip, all_on_cpu(graph, chip.isa), optimize)
    graph = passes.run(graph, passes.NPU_PIPELINE, watch)
    wishes = placement or PlacementWishes()
    refuse_idle_wishes(graph, wishes)
    placed = place(graph, chip.npu, chip.isa, wishes)
    if watch:
        watch("place", placed.graph)
    return Program(placed.graph, chip, placed.ledger, optimize)


def refuse_npu_wishes(chip: Target, placement: PlacementWishes | None) -> None:
    """Raises where a chip without an NPU is asked for more or less of it."""
    asked = placement or PlacementWishes()
    options = ["--only-npu"] * asked.only_npu + [f"--keep-on-cpu {pattern}" for pattern in asked.keep_on_cpu]
    if options:
        raise PillionError(
            f"`{chip.name}` has no NPU",
            rule="--only-npu and --keep-on-cpu go with chips that have one",
            here=f"--target {chip.name} {' '.join(options)}",
            help=f"--target imxrt700, or leave {options[0].split()[0]} out",
        )


def refuse_idle_wishes(graph: Graph, placement: PlacementWishes) -> None:
    """Raises where a pattern keeps no op at all on the CPU: it is misspelt, or meant for another model."""
    patterns = placement.keep_on_cpu
    idle = [p for p in patterns if not any(PlacementWishes((p,)).keeps(op) for op in graph.ops)]
    if idle:
        known = list(dict.fromkeys(word for op in graph.ops for word in (op.kind, op.name)))
        close = difflib.get_close_matches(idle[0], known, n=1)
        raise PillionError(
            f"--keep-on-cpu {idle[0]} matches no op of `{graph.name}`",
            rule="each pattern matches the name or the kind of an op",
            here=f"{', '.join(idle)}; kinds: {', '.join(sorted({op.kind for op in graph.ops}))}",
            help=f"--keep-on-cpu {quote(close[0])}" if close else "`pillion explain` lists names and kinds",
        )


def refuse_float(name: str, left: Sequence[tuple[str, str, str]]) -> None:
    """Raises where ops (what, source line, reason) compute in float between the model's borders."""
    if left:
        listed = "\n".join(
            f"{what}{f' ({source})' if source else ''}: {reason}" for what, source, reason in left
        )
        raise PillionError(
            f"{len(left)} {'op' if len(left) == 1 else 'ops'} of `{name}` would stay in float",
            rule="all ops between the model's inputs and outputs are int8",
            here=listed,
            help="write these ops with supported ones (`pillion ops --pytorch`), or leave them outside the model",
        )

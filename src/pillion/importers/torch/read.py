# SPDX-License-Identifier: Apache-2.0
"""From what a user has of a model in PyTorch to a Graph, whose weights are int8 and which computes in float between quantize and
dequantize ops."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pillion.errors import PillionError
from pillion.importers.torch import capture
from pillion.importers.torch.floats import FloatNet
from pillion.importers.torch.given import Batches, as_model
from pillion.importers.torch.quantize import FloatOp, QatModule, finish_training, ptq
from pillion.importers.torch.quantize.ptq import AS_USUAL, Progress
from pillion.importers.torch.remembered import remembering
from pillion.importers.torch.rewrite.functional import refused_writes
from pillion.importers.torch.rows.reasons import MOVES, WRITES
from pillion.importers.torch.settings import settled
from pillion.importers.torch.to_graph import import_with_origins
from pillion.ir.graph import Graph
from pillion.ir.tuning import Tuning
from pillion.ir.verify import refuse_float
from pillion.ir.wishes import Wishes


@dataclass(frozen=True)
class ReadModel:
    """A model that was read: its graph and, where it was quantized after training, the float model beside it."""

    graph: Graph
    floats: FloatNet | None


def read(
    model: Any,
    example_inputs: Any = None,
    *,
    wishes: Wishes,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    name: str | None = None,
    nhwc: bool = False,
    input_size: capture.InputSize = None,
    weights: str | Path | None = None,
    trust_pickle: bool = False,
    tuning: Tuning = AS_USUAL,
) -> ReadModel:
    """Gives the graph of a module, of an exported program, or of what `-m` names: a model of the zoo, `file.py:factory`, a .pt2.

    `wishes` are those of the target's processors; without `calibrate` the example inputs alone decide the ranges."""
    if isinstance(model, (str, os.PathLike)):
        _want_no_inputs(os.fspath(model), example_inputs)
        source = capture.load(
            os.fspath(model), input_size=input_size, weights=weights, trust_pickle=trust_pickle
        )
        is_trained = isinstance(source.module, QatModule)
        found, inputs = (source.module if is_trained else source.exported), source.example_inputs
        remembered = None if is_trained else remembering(source.module, inputs)
        name = name or source.name
    else:
        found, inputs, calibrate = settled(as_model(model), example_inputs, calibrate)
        name = name or (
            found.preparation.name if isinstance(found, QatModule) else type(found).__name__.lower()
        )
        if not isinstance(found, QatModule):
            _want_none_prepared(found)
        remembered = None if isinstance(found, QatModule) else remembering(found, inputs)
    if remembered is not None:
        with_states = ptq(
            remembered, inputs, calibrate, progress, wishes, _refusing(name), remembered.observed, tuning
        )
        graph, _ = import_with_origins(with_states.graph_module, name, nhwc=nhwc)
        return ReadModel(remembered.closed(graph, nhwc), None)
    return _quantized(found, inputs, name, calibrate, progress, wishes, nhwc, tuning)


def _want_no_inputs(spec: str, example_inputs: Any) -> None:
    if example_inputs is not None:
        raise PillionError(
            f"{spec} says itself what its inputs look like",
            rule="example_inputs go with a module or an exported program",
            here=f"example_inputs with {spec}",
            help="leave example_inputs out",
        )


def _want_none_prepared(model: Any) -> None:
    """Raises where a part of a model was prepared for training, as of a module that holds model and loss."""
    parts = model.named_modules() if isinstance(model, nn.Module) else ()
    path = next((name for name, part in parts if isinstance(part, QatModule)), None)
    if path is not None:
        raise PillionError(
            f"a part of {type(model).__name__} was prepared for training",
            rule="compile takes what prepare_qat gave, by itself",
            here=f"`{path}`",
            help=f"pillion.compile(module.{path}, example_inputs, target), or prepare the module as a whole",
        )


def _refusing(name: str) -> Callable[[Sequence[FloatOp]], None]:
    """What raises where ops of a model would stay in float."""

    def refuse(ops: Sequence[FloatOp]) -> None:
        writes = [op for op in ops if op.reason == WRITES]
        if writes and all(op.reason in (WRITES, MOVES) for op in ops):
            raise refused_writes([op.source for op in writes], writes[0].op)
        refuse_float(name, [(op.op, op.source, op.reason) for op in ops])

    return refuse


def _quantized(
    model: Any,
    inputs: tuple[Tensor, ...],
    name: str,
    calibrate: Batches | None,
    progress: Progress | None,
    wishes: Wishes,
    nhwc: bool,
    tuning: Tuning,
) -> ReadModel:
    refuse = _refusing(name)
    if isinstance(model, QatModule):
        _want_no_tuning(model, tuning)
        quantized = finish_training(model, inputs, calibrate, progress, wishes)
        refuse(quantized.float_ops)
    else:
        quantized = ptq(model, inputs, calibrate, progress, wishes, refuse, tuning=tuning)
    graph, origins = import_with_origins(quantized.graph_module, name, nhwc=nhwc)
    module = quantized.float_module
    return ReadModel(graph, FloatNet(module, origins) if module is not None else None)


def _want_no_tuning(model: QatModule, tuning: Tuning) -> None:
    if tuning != AS_USUAL:
        raise PillionError(
            f"`{model.preparation.name}` is prepared for training",
            rule="tuning (--ranges, --equalize, --correct-biases) is for models that are quantized after training",
            here=f"{tuning}",
            help="leave tuning out: training has learned with the ranges that it has",
        )

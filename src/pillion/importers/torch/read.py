# SPDX-License-Identifier: Apache-2.0
"""Reads a PyTorch model into a graph with int8 weights that computes in float between `quantize` and `dequantize`
ops."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule

from pillion.compile_options import AFTER_TRAINING_OPTIONS, Loading, Quantization
from pillion.errors import PillionError
from pillion.importers.torch import capture
from pillion.importers.torch.buffers_as_states import StatefulModule, as_stateful
from pillion.importers.torch.fixed_arguments import fix_arguments
from pillion.importers.torch.float_origin import FloatNet, Origin
from pillion.importers.torch.preprocessing import preprocessed
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.importers.torch.quantize.converted_program import (
    is_converted,
    read_converted,
    refuse_prepared,
    refuse_quantization_options,
)
from pillion.importers.torch.quantize.precision_search import PrecisionGoal
from pillion.importers.torch.quantize.ptq import PostTraining
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.rewrite.functionalize import refused_writes
from pillion.importers.torch.rows.refusal_reasons import MOVES, WRITES
from pillion.importers.torch.to_graph import import_with_origins
from pillion.importers.torch.train.qat import finish_training
from pillion.importers.torch.train.qat_module import QatModule
from pillion.importers.torch.user_inputs import Batches, as_inputs, require_model
from pillion.ir.graph import Graph
from pillion.ir.quantized_model import QuantizationTask, ReadModel
from pillion.ir.verify import refuse_float

DEFAULT_LOADING = Loading()


@dataclass(frozen=True)
class Source:
    """A captured model, or one that torch can capture, with its example inputs."""

    model: Any
    inputs: tuple[Tensor, ...]
    name: str
    calibrate: Batches | None = None
    """Calibration data without the arguments that are fixed."""
    states: StatefulModule | None = None
    """The model with its written buffers as inputs and outputs, if it has any."""

    def graph_of(self, module: GraphModule, nhwc: bool) -> tuple[Graph, dict[str, Origin]]:
        """Imports the quantized model, and maps its values to those of the float model."""
        graph, origins = import_with_origins(module, self.name, nhwc=nhwc)
        return graph if self.states is None else self.states.with_states(graph, nhwc), origins


def read(
    model: Any,
    example_inputs: Any,
    task: QuantizationTask,
    *,
    name: str | None = None,
    nhwc: bool = False,
    loading: Loading = DEFAULT_LOADING,
) -> ReadModel:
    """Imports a module, an exported program, or a model that `-m` names: a zoo model, `file.py:factory`, a .pt2."""
    if isinstance(model, (str, os.PathLike)):
        _require_no_inputs(os.fspath(model), example_inputs)
        source = _named_source(os.fspath(model), loading, task.options.calibrate)
    else:
        source = _given_source(model, example_inputs, loading.preprocess, task.options.calibrate)
    source = replace(source, name=name or source.name)
    task = task.calibrated_by(source.calibrate)
    if is_converted(source.model):
        refuse_quantization_options(source.name, task.options)
        converted = read_converted(source.model, source.inputs, source.name)
        return ReadModel(source.graph_of(converted, nhwc)[0])
    quantized = _quantize(source, task, nhwc)
    graph, origins = source.graph_of(quantized.graph_module, nhwc)
    module = quantized.float_module
    floats = FloatNet(module, origins) if module is not None else None
    samples = [[tensor.detach().numpy() for tensor in sample] for sample in quantized.samples]
    return ReadModel(graph, floats, quantized.precision, samples, quantized.fitted_layers)


def _named_source(spec: str, loading: Loading, calibrate: Batches | None) -> Source:
    source = capture.load_model(
        spec,
        input_size=loading.size,
        weights=loading.weights,
        trust_pickle=loading.trust_pickle,
        preprocess=loading.preprocess,
    )
    inputs = source.example_inputs
    if isinstance(source.module, QatModule):
        return Source(source.module, inputs, source.name, calibrate)
    states = None if is_converted(source.exported) else as_stateful(source.module, inputs)
    return Source(source.exported, inputs, source.name, calibrate, states)


def _given_source(model: Any, example_inputs: Any, preprocess: Any, calibrate: Batches | None) -> Source:
    if isinstance(model, StatefulModule):
        return Source(model, as_inputs(example_inputs, "example_inputs"), "model", calibrate, model)
    name = type(model).__name__.lower() if preprocess is not None else None
    if preprocess is not None:
        given = as_inputs(example_inputs, "example_inputs")
        model, example_inputs = preprocessed(require_model(model), given, preprocess)
    module, inputs, calibrate = fix_arguments(require_model(model), example_inputs, calibrate)
    if isinstance(module, QatModule):
        return Source(module, inputs, name or module.preparation.name, calibrate)
    name = name or type(module).__name__.lower()
    if is_converted(module):
        return Source(module, inputs, name, calibrate)
    _refuse_prepared_submodules(module)
    refuse_prepared(module)
    return Source(module, inputs, name, calibrate, as_stateful(module, inputs))


def _quantize(source: Source, task: QuantizationTask, nhwc: bool) -> QuantizedProgram:
    refuse = _float_op_refuser(source.name)
    if isinstance(source.model, QatModule):
        _require_no_tuning(source.model, task.options)
        quantized = finish_training(
            source.model, source.inputs, task.options.calibrate, task.progress, task.constraints
        )
        refuse(quantized.float_ops)
        return quantized
    states, pricing = source.states, task.pricing
    if states is not None and pricing is not None and pricing.metric is not None:
        raise PillionError(
            f"no metric of `{source.name}` can be judged",
            rule="samples are judged one by one, and the model remembers earlier ones",
            here="--max-drop",
            help="--min-quality 35dB compares with float over the samples of --calibrate",
        )
    goal = _goal(task, lambda module: source.graph_of(module, nhwc)[0])
    model = source.model if states is None else states.exported or states
    return PostTraining(task, refuse, states, goal).quantize(model, source.inputs)


def _goal(task: QuantizationTask, graph_of: Callable[[GraphModule], Graph]) -> PrecisionGoal | None:
    """Returns the goal of the choice of 16-bit tensors, if the compiler chooses them."""
    pricing = task.pricing
    if not task.options.is_mixed or pricing is None:
        return None
    judge = pricing.metric
    return PrecisionGoal(
        pricing.quality,
        pricing.bounds,
        lambda module: pricing.cost(graph_of(module)),
        None if judge is None else lambda module, floats: judge(graph_of(module), floats),
    )


def _require_no_inputs(spec: str, example_inputs: Any) -> None:
    if example_inputs is not None:
        raise PillionError(
            f"{spec} says itself what its inputs look like",
            rule="example_inputs go with a module or an exported program",
            here=f"example_inputs with {spec}",
            help="leave example_inputs out",
        )


def _refuse_prepared_submodules(model: Any) -> None:
    """Raises if a submodule was prepared for training."""
    parts = model.named_modules() if isinstance(model, nn.Module) else ()
    path = next((name for name, part in parts if isinstance(part, QatModule)), None)
    if path is not None:
        raise PillionError(
            f"a part of {type(model).__name__} was prepared for training",
            rule="compile takes what prepare_qat gave, by itself",
            here=f"`{path}`",
            help=f"pillion.compile(module.{path}, example_inputs, target), or prepare the module as a whole",
        )


def _float_op_refuser(name: str) -> Callable[[Sequence[FloatOp]], None]:
    """Returns a function that raises if operators of the model would stay in float."""

    def refuse(ops: Sequence[FloatOp]) -> None:
        writes = [op for op in ops if op.reason == WRITES]
        if writes and all(op.reason in (WRITES, MOVES) for op in ops):
            raise refused_writes([op.source for op in writes], writes[0].op)
        refuse_float(name, [(op.op, op.source, op.reason) for op in ops])

    return refuse


def _require_no_tuning(model: QatModule, tuning: Quantization) -> None:
    if tuning.tuning not in ({}, model.preparation.tuning.tuning):
        raise PillionError(
            f"`{model.preparation.name}` is prepared for training",
            rule=f"tuning ({AFTER_TRAINING_OPTIONS}) is for models that are quantized after training, and prepare_qat says which tensors have 16 bits",
            here=", ".join(f"{name}={value!r}" for name, value in tuning.tuning.items()),
            help="leave tuning out: training has learned with the ranges that it has",
        )

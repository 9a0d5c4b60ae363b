# SPDX-License-Identifier: Apache-2.0
"""Reads a PyTorch model into a graph with int8 weights that computes in float between `quantize` and `dequantize`
ops."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule

from pillion.compile_options import AFTER_TRAINING_OPTIONS, Quantization
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
from pillion.importers.torch.quantize.ptq import DEFAULT_TUNING, Progress, ptq
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.rewrite.functionalize import refused_writes
from pillion.importers.torch.rows.refusal_reasons import MOVES, WRITES
from pillion.importers.torch.to_graph import import_program, import_with_origins
from pillion.importers.torch.train.qat import finish_training
from pillion.importers.torch.train.qat_module import QatModule
from pillion.importers.torch.user_inputs import Batches, as_inputs, require_model
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.graph import Graph
from pillion.ir.precision_choice import Pricing
from pillion.ir.quantized_model import ReadModel
from pillion.ir.verify import refuse_float


def read(
    model: Any,
    example_inputs: Any = None,
    *,
    constraints: QuantizationConstraints,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    name: str | None = None,
    nhwc: bool = False,
    input_size: capture.InputSize = None,
    weights: str | Path | None = None,
    trust_pickle: bool = False,
    preprocess: Any = None,
    tuning: Quantization = DEFAULT_TUNING,
    pricing: Pricing | None = None,
) -> ReadModel:
    """Imports a module, an exported program, or a model that `-m` names: a zoo model, `file.py:factory`, a .pt2.

    `constraints` are the constraints of the target's processors. Without `calibrate`, the example inputs determine
    the ranges. `pricing` compares plans where the compiler chooses tensors of 16 bits."""
    if isinstance(model, (str, os.PathLike)):
        _require_no_inputs(os.fspath(model), example_inputs)
        source = capture.load_model(
            os.fspath(model),
            input_size=input_size,
            weights=weights,
            trust_pickle=trust_pickle,
            preprocess=preprocess,
        )
        name = name or source.name
        if is_converted(source.exported):
            return _import_converted(source.exported, source.example_inputs, name, calibrate, nhwc, tuning)
        is_trained = isinstance(source.module, QatModule)
        module, inputs = (source.module if is_trained else source.exported), source.example_inputs
        stateful = None if is_trained else as_stateful(source.module, inputs)
    elif isinstance(model, StatefulModule):
        module, stateful, inputs, name = (
            model,
            model,
            as_inputs(example_inputs, "example_inputs"),
            name or "model",
        )
    else:
        if preprocess is not None:
            name = name or type(model).__name__.lower()
            given = as_inputs(example_inputs, "example_inputs")
            model, example_inputs = preprocessed(require_model(model), given, preprocess)
        module, inputs, calibrate = fix_arguments(require_model(model), example_inputs, calibrate)
        name = name or (
            module.preparation.name if isinstance(module, QatModule) else type(module).__name__.lower()
        )
        if is_converted(module):
            return _import_converted(module, inputs, name, calibrate, nhwc, tuning)
        if not isinstance(module, QatModule):
            _refuse_prepared_submodules(module)
            refuse_prepared(module)
        stateful = None if isinstance(module, QatModule) else as_stateful(module, inputs)
    if stateful is not None:
        if pricing is not None and pricing.metric is not None:
            raise PillionError(
                f"no metric of `{name}` can be judged",
                rule="samples are judged one by one, and the model remembers earlier ones",
                here="--max-drop",
                help="--min-quality 35dB compares with float over the samples of --calibrate",
            )
        captured = stateful.exported or stateful
        refuse, known = _float_op_refuser(name), stateful

        def graph_with_states(module: GraphModule) -> Graph:
            return known.with_states(import_program(module, name, nhwc=nhwc), nhwc)

        goal = _goal(tuning, pricing, graph_with_states)
        with_states = ptq(
            captured, inputs, calibrate, progress, constraints, refuse, stateful, tuning, goal=goal
        )
        graph, origins = import_with_origins(with_states.graph_module, name, nhwc=nhwc)
        return _read_model(known.with_states(graph, nhwc), origins, with_states)
    return _quantize_and_import(module, inputs, name, calibrate, progress, constraints, nhwc, tuning, pricing)


def _goal(
    tuning: Quantization, pricing: Pricing | None, graph_of: Callable[[GraphModule], Graph]
) -> PrecisionGoal | None:
    """Returns the goal of the choice of 16-bit tensors, if the compiler chooses them."""
    if not tuning.is_mixed or pricing is None:
        return None
    judge = pricing.metric
    return PrecisionGoal(
        pricing.quality,
        pricing.bounds,
        lambda module: pricing.cost(graph_of(module)),
        None if judge is None else lambda module, floats: judge(graph_of(module), floats),
    )


def _import_converted(
    model: Any,
    inputs: tuple[Tensor, ...],
    name: str,
    calibrate: Batches | None,
    nhwc: bool,
    tuning: Quantization,
) -> ReadModel:
    """Imports a program that a pt2e flow has converted, with its own scales."""
    refuse_quantization_options(name, calibrate, tuning)
    return ReadModel(import_program(read_converted(model, inputs, name), name, nhwc=nhwc))


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


def _quantize_and_import(
    model: Any,
    inputs: tuple[Tensor, ...],
    name: str,
    calibrate: Batches | None,
    progress: Progress | None,
    constraints: QuantizationConstraints,
    nhwc: bool,
    tuning: Quantization,
    pricing: Pricing | None,
) -> ReadModel:
    refuse = _float_op_refuser(name)
    if isinstance(model, QatModule):
        _require_no_tuning(model, tuning)
        quantized = finish_training(model, inputs, calibrate, progress, constraints)
        refuse(quantized.float_ops)
    else:
        goal = _goal(tuning, pricing, lambda module: import_program(module, name, nhwc=nhwc))
        quantized = ptq(model, inputs, calibrate, progress, constraints, refuse, tuning=tuning, goal=goal)
    graph, origins = import_with_origins(quantized.graph_module, name, nhwc=nhwc)
    return _read_model(graph, origins, quantized)


def _read_model(graph: Graph, origins: Mapping[str, Origin], quantized: QuantizedProgram) -> ReadModel:
    module = quantized.float_module
    floats = FloatNet(module, origins) if module is not None else None
    samples = [[tensor.detach().numpy() for tensor in sample] for sample in quantized.samples]
    return ReadModel(graph, floats, quantized.precision, samples, quantized.fitted_layers)


def _require_no_tuning(model: QatModule, tuning: Quantization) -> None:
    if tuning.tuning not in ({}, model.preparation.tuning.tuning):
        raise PillionError(
            f"`{model.preparation.name}` is prepared for training",
            rule=f"tuning ({AFTER_TRAINING_OPTIONS}) is for models that are quantized after training, and prepare_qat says which tensors have 16 bits",
            here=", ".join(f"{name}={value!r}" for name, value in tuning.tuning.items()),
            help="leave tuning out: training has learned with the ranges that it has",
        )

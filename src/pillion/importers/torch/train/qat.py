# SPDX-License-Identifier: Apache-2.0
"""Quantization-aware training: a trainable module that computes with int8 rounding.

trained = prepare_qat(model, example_inputs)      in training.py, where targets are known …
any loop of PyTorch pillion.compile(trained, example_inputs, target="cortex-m55")"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase
from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

from pillion.compile_options import Quantization
from pillion.errors import PillionError, warn
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.fx_nodes import calls, constant_of, replace
from pillion.importers.torch.quantize.annotate import PillionQuantizer
from pillion.importers.torch.quantize.bias_headroom import add_bias_headroom
from pillion.importers.torch.quantize.convert import convert
from pillion.importers.torch.quantize.precision import use_int16_tensors
from pillion.importers.torch.quantize.ptq import DEFAULT_TUNING, Inputs, check_ranges, run_through_observers
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.quantize.range_checks import warn_of_ranges
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.rewrite.functionalize import DROPOUTS
from pillion.importers.torch.rewrite.fuse_scalar_functions import fuse_functions
from pillion.importers.torch.rewrite.global_pools import global_pools_to_means
from pillion.importers.torch.train.batches import check_fit, fix_shapes, trainable_graph
from pillion.importers.torch.train.folded_norms import fold_trained_norms, simulate_folding
from pillion.importers.torch.train.qat_module import Preparation, QatModule
from pillion.importers.torch.user_inputs import Batches, as_inputs, require_model
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.quantized_model import Progress

NOT_TRAINED = "the module was prepared for training but not trained: its weights are those of the float model"


def prepare_qat(
    model: nn.Module,
    example_inputs: Any,
    constraints: QuantizationConstraints | None = None,
    *,
    wishes: QuantizationConstraints | None = None,
    tuning: Quantization = DEFAULT_TUNING,
) -> QatModule:
    """Returns a trainable copy of a model; the first axis of the example inputs is the batch. `tuning` says which tensors
    have 16 bits. `wishes` is the old name of `constraints`."""
    constraints = constraints or wishes
    if tuning.is_mixed:
        raise _mixed_precision_error(tuning)
    model = require_model(model, "prepare_qat")
    if isinstance(model, QatModule):
        raise PillionError(
            "the module is prepared for training already",
            rule="prepare_qat takes the float model",
            here=f"what prepare_qat made of `{model.preparation.name}`, {int(model.batches_seen)} batches of training",
            help="train this module on, or prepare the model that it was made from",
        )
    module = prepare_trainable(
        copy.deepcopy(model),
        as_inputs(example_inputs, "example_inputs"),
        constraints or QuantizationConstraints(),
        tuning,
    )
    _warn_about_preparation(module.preparation)
    return module


def prepare_trainable(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    constraints: QuantizationConstraints,
    tuning: Quantization = DEFAULT_TUNING,
) -> QatModule:
    """Returns a trainable module that takes over `model`."""
    graph, any_batch = trainable_graph(model, inputs, constraints)
    quantizer = PillionQuantizer(Specs(training=True), constraints)
    global_pools_to_means(graph, constraints)
    fuse_functions(graph, constraints, training=True)
    with quiet_torch():
        rounding = prepare_qat_pt2e(graph, quantizer)
    use_int16_tensors(rounding, tuning.int16_patterns, constraints.image_bits)
    _delete_uncalled_rounding(rounding)
    for method in ("train", "eval"):  # torchao forbids both, on the instance
        rounding.__dict__.pop(method, None)
    simulate_folding(rounding)
    examples = tuple(x.detach().clone() for x in inputs)
    name = type(model).__name__.lower()
    module = QatModule(
        rounding,
        model,
        Preparation(
            name, constraints, examples, restore_stored, tuple(quantizer.float_ops), any_batch, tuning
        ),
    )
    module.eval().freeze_ranges(
        inputs
    )  # so that all buffers have their shapes: averages over models copy them
    return module.train()


def _delete_uncalled_rounding(rounding: GraphModule) -> None:
    """Deletes the 8-bit rounding of tensors that have 16 bits: it sees no data, and copies of the graph do not have it."""
    called = {str(node.target) for node in rounding.graph.find_nodes(op="call_module")}
    for name, part in list(rounding._modules.items()):
        if isinstance(part, FakeQuantizeBase) and name not in called:
            rounding.delete_submodule(name)


def restore_stored(
    model: nn.Module, how: Preparation, state: dict[str, Any], modes: Sequence[bool], training: bool
) -> QatModule:
    """Restores a stored module: prepares its model and loads tensors and modes."""
    module = prepare_trainable(model, how.inputs, how.constraints, how.tuning)
    module.preparation = how
    module.load_state_dict(state)
    module.training = training
    for part, mode in zip(module.origin.modules(), modes, strict=True):
        part.training = mode
    module.follow_modes()
    return module


def _mixed_precision_error(tuning: Quantization) -> PillionError:
    return PillionError(
        "prepare_qat does not choose tensors of 16 bits",
        rule="training has precision='int8' or 'int16', or the names in int16=",
        here=", ".join(f"{name}={value!r}" for name, value in tuning.tuning.items()),
        help="compile the float model with --min-quality: the names that `explain` shows go to prepare_qat(…, int16=names)",
    )


def _warn_about_preparation(how: Preparation) -> None:
    if how.float_ops:
        listed = "\n  ".join(str(op) for op in how.float_ops)
        warn(f"compile will refuse the trained module:\n  {listed}", UserWarning)
    if not how.any_batch:
        shapes = ", ".join(str(list(x.shape)) for x in how.inputs)
        warn(f"the model's forward depends on the batch size: train it with inputs of {shapes}", UserWarning)


def finish_training(
    trained: QatModule,
    example_inputs: Any,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    constraints: QuantizationConstraints | None = None,
) -> QuantizedProgram:
    """Returns the int8 graph of a trained module, which stays unchanged. A module without training is calibrated,
    with a warning."""
    trained.check_parts()
    ranges = trained.ranges()
    is_measured = not any(bool(o.min_val.isposinf().any() and o.max_val.isneginf().any()) for o in ranges)
    _check_finish_arguments(
        trained, None if not is_measured else calibrate, constraints or QuantizationConstraints()
    )
    if trained.is_trained and not is_measured and calibrate is None:
        raise PillionError(
            f"the prepared `{trained.preparation.name}` has learned, but has no ranges",
            rule="ranges follow the batches that go through the module in train mode; an average of state dicts that began before has none",
            here="ranges from +inf to -inf",
            help="pillion.compile(module, example_inputs, target, calibrate=batches) measures them",
        )
    inputs = tuple(x.cpu() for x in as_inputs(example_inputs, "example_inputs"))
    check_fit(trained.rounding, inputs)
    with quiet_torch():
        module = copy.deepcopy(trained).cpu().eval()
    notes = () if trained.is_trained else (NOT_TRAINED,)
    if notes:
        warn(NOT_TRAINED, UserWarning)
    if notes or not is_measured:
        module.reset_ranges()
        _calibrate(module, inputs, calibrate, progress)
    module.freeze_ranges(inputs)
    check_ranges(module.rounding, "training")
    warn_of_ranges(module.rounding)
    _remove_dropouts(module.rounding)
    fold_trained_norms(module.rounding)
    add_bias_headroom(module.rounding)
    converted = convert(module.rounding)
    fix_shapes(converted, inputs)
    return QuantizedProgram(converted, trained.preparation.float_ops, notes)


def _check_finish_arguments(
    trained: QatModule, calibrate: object, constraints: QuantizationConstraints
) -> None:
    if trained.is_trained and calibrate is not None:
        raise PillionError(
            "a trained module has its ranges already",
            rule="`calibrate` goes with float models",
            here=f"{int(trained.batches_seen)} batches of training",
            help="leave `calibrate` out",
        )
    own = trained.preparation.constraints
    if own | constraints != own:
        raise PillionError(
            "the module was trained for a target that rounds in another way",
            rule="prepare_qat and compile name the same target, or compile one that asks for less",
            here=f"prepared for {own.target or 'a CPU'}, compiled for {constraints.target or 'an NPU'}",
            help=f"prepare_qat(model, example_inputs, target={constraints.target or 'TARGET'!r}), and train that",
        )


def _calibrate(module: QatModule, inputs: Inputs, batches: Batches | None, progress: Progress | None) -> None:
    """Calibrates with `batches`, or with the example inputs if eval mode collected no ranges."""
    if batches is not None:
        run_through_observers(module, batches, progress, inputs)
    elif any(bool(torch.isinf(observer.min_val)) for observer in module.ranges()):
        run_through_observers(module, [inputs], None, inputs)


def _remove_dropouts(module: GraphModule) -> None:
    for node in calls(module.graph, DROPOUTS):
        replace(node, node.args[0])  # type: ignore[arg-type]  # the schema says tensor
    for node in module.graph.find_nodes(op="get_attr"):
        if not node.users and constant_of(node) is not None:
            module.graph.erase_node(node)
    module.recompile()

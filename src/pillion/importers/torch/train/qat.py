# SPDX-License-Identifier: Apache-2.0
"""Quantization-aware training: a module that computes in float what the chip will compute in int8, and can be trained.

trained = prepare_qat(model, example_inputs)      in training.py, where targets are known
…                                                 any loop of PyTorch
pillion.compile(trained, example_inputs, target="cortex-m55")
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

from pillion.errors import PillionError, warn
from pillion.importers.torch.export import quiet
from pillion.importers.torch.given import Batches, as_inputs, as_model
from pillion.importers.torch.loops import run
from pillion.importers.torch.nodes import calls, constant_of, replace
from pillion.importers.torch.quantize.annotate import FloatOp, PillionQuantizer
from pillion.importers.torch.quantize.bias import make_room_for_biases
from pillion.importers.torch.quantize.convert import convert
from pillion.importers.torch.quantize.program import QuantizedProgram
from pillion.importers.torch.quantize.ptq import Inputs, Progress, check_ranges, observe
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.quantize.useful_ranges import warn_of_ranges
from pillion.importers.torch.rewrite.functional import DROPOUTS
from pillion.importers.torch.rewrite.pools import scale_pools
from pillion.importers.torch.train.batches import check_fit, fix_shapes, trainable_graph
from pillion.importers.torch.train.norms import put_norms_away, simulate_folding
from pillion.importers.torch.train.ranges import RangeOverBatches
from pillion.importers.torch.train.simulation import batch_norm
from pillion.ir.wishes import Wishes

NOT_TRAINED = "the module was prepared for training but not trained: its weights are those of the float model"
TRAINING_ARGUMENT: dict[Any, int] = {batch_norm: 5, **dict.fromkeys(DROPOUTS, 2)}
"""Calls that do something else in training, and the position of the argument that says so."""


class QatModule(nn.Module):
    """A model with its rounding in place. Parameters, buffers and modes are those of any module.

    In training, ranges of activations follow the data. In eval mode nothing moves, so that evaluation gives what the compiled
    program gives; only before the first batch of training does eval mode collect ranges, as calibration does."""

    batches_seen: Tensor

    def __init__(
        self,
        model: GraphModule,
        wishes: Wishes | None = None,
        float_ops: Sequence[FloatOp] = (),
        any_batch: bool = True,
        name: str = "model",
    ) -> None:
        super().__init__()
        self.name = name
        self.model = model
        self.wishes = wishes or Wishes()
        self.float_ops = tuple(float_ops)
        self.any_batch = any_batch
        self.register_buffer("batches_seen", torch.zeros((), dtype=torch.long))
        self.register_load_state_dict_post_hook(_keep_mode)  # type: ignore[no-untyped-call]  # of torch
        self.train()

    @property
    def is_trained(self) -> bool:
        """Whether a batch has gone through in train mode."""
        return bool(self.batches_seen > 0)

    def forward(self, *inputs: Tensor) -> Any:
        """Computes the outputs with rounding in place; in train mode, ranges follow the batch."""
        if self.training:
            self.batches_seen += 1
        for observer in self.ranges():
            observer.begin_batch()
        return run(self.model, *inputs)

    def train(self, mode: bool = True) -> QatModule:
        """Puts batch norms, dropouts and ranges in train mode, or in eval mode."""
        self.training = mode
        nodes = [n for n in calls(self.model.graph, TRAINING_ARGUMENT) if _is_switched(n)]
        changed = [n for n in nodes if n.args[TRAINING_ARGUMENT[n.target]] != mode]
        for node in changed:
            position = TRAINING_ARGUMENT[node.target]
            node.args = (*node.args[:position], mode, *node.args[position + 1 :])
        if changed:
            self.model.recompile()
        self._follow_ranges(mode or not self.is_trained)
        return self

    def _follow_ranges(self, follow: bool) -> None:
        for part in self.model.children():
            if isinstance(getattr(part, "activation_post_process", None), RangeOverBatches):
                part.enable_observer(follow)  # type: ignore[operator]  # a FakeQuantize

    def settle(self, inputs: Inputs) -> None:
        """Sets the ranges of weights to those of the weights as they are, after the last step of the optimizer."""
        self._follow_ranges(False)
        with torch.no_grad():
            run(self.model, *inputs)

    def ranges(self) -> list[RangeOverBatches]:
        """Gives the observers of the ranges of all activations."""
        return [part for part in self.model.modules() if isinstance(part, RangeOverBatches)]


def _keep_mode(module: nn.Module, _: object) -> None:
    """A state dict holds the switches of the observers; the mode is the module's own."""
    module.train(module.training)


def _is_switched(node: Node) -> bool:
    return len(node.args) > TRAINING_ARGUMENT[node.target]


def prepare_qat(model: nn.Module, example_inputs: Any, wishes: Wishes | None = None) -> QatModule:
    """Gives a copy of a model that can be trained; the example inputs show the shapes, their first axis is the batch."""
    model = as_model(model, "prepare_qat")
    if isinstance(model, QatModule):
        raise PillionError(
            "the module is prepared for training already",
            rule="prepare_qat takes the float model",
            here=f"what prepare_qat made of `{model.name}`, {int(model.batches_seen)} batches of training",
            help="train this module on, or prepare the model that it was made from",
        )
    inputs = as_inputs(example_inputs, "example_inputs")
    model = copy.deepcopy(model)
    graph, any_batch = trainable_graph(model, inputs)
    _average_without_momentum(graph, model)
    quantizer = PillionQuantizer(Specs(training=True), wishes or Wishes())
    scale_pools(graph, quantizer.wishes)
    with quiet():
        prepared = prepare_qat_pt2e(graph, quantizer)
    for method in ("train", "eval"):  # torchao forbids both, on the instance
        prepared.__dict__.pop(method, None)
    simulate_folding(prepared)
    _warn(quantizer.float_ops, any_batch, inputs)
    module = QatModule(
        prepared, quantizer.wishes, quantizer.float_ops, any_batch, type(model).__name__.lower()
    )
    module.eval().settle(inputs)  # so that all buffers have their shapes: averages over models copy them
    return module.train()


def _average_without_momentum(graph: GraphModule, model: nn.Module) -> None:
    """Recording writes momentum 0 for `momentum=None`, which means an average over all batches."""
    for norm in calls(graph.graph, [batch_norm]):
        mean: Any = norm.args[3]
        if getattr(model.get_submodule(mean.target.rpartition(".")[0]), "momentum", 0.0) is None:
            norm.args = (*norm.args[:6], None, *norm.args[7:])


def _warn(float_ops: Sequence[FloatOp], any_batch: bool, inputs: Sequence[Tensor]) -> None:
    if float_ops:
        listed = "\n  ".join(str(op) for op in float_ops)
        warn(f"compile will refuse the trained module:\n  {listed}", UserWarning)
    if not any_batch:
        shapes = ", ".join(str(list(x.shape)) for x in inputs)
        warn(f"the model's forward depends on the batch size: train it with inputs of {shapes}", UserWarning)


def finish_training(
    trained: QatModule,
    example_inputs: Any,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    wishes: Wishes | None = None,
) -> QuantizedProgram:
    """Gives the int8 graph of a trained module, which stays as it is. Without training it is calibrated instead, with a warning."""
    _check_use(trained, calibrate, wishes or Wishes())
    inputs = tuple(x.cpu() for x in as_inputs(example_inputs, "example_inputs"))
    check_fit(trained.model, inputs)
    with quiet():
        module = copy.deepcopy(trained).cpu().eval()
    notes = () if trained.is_trained else (NOT_TRAINED,)
    if notes:
        warn(NOT_TRAINED, UserWarning)
        _calibrate(module, inputs, calibrate, progress)
    module.settle(inputs)
    check_ranges(module.model, "training")
    warn_of_ranges(module.model)
    _remove_dropouts(module.model)
    put_norms_away(module.model)
    make_room_for_biases(module.model)
    converted = convert(module.model)
    fix_shapes(converted, inputs)
    return QuantizedProgram(converted, trained.float_ops, notes)


def _check_use(trained: QatModule, calibrate: object, wishes: Wishes) -> None:
    if trained.is_trained and calibrate is not None:
        raise PillionError(
            "a trained module has its ranges already",
            rule="`calibrate` goes with float models",
            here=f"{int(trained.batches_seen)} batches of training",
            help="leave `calibrate` out",
        )
    if trained.wishes | wishes != trained.wishes:
        raise PillionError(
            "the module was trained for a target that rounds in another way",
            rule="prepare_qat and compile name the same target, or compile one that asks for less",
            here=f"trained with {trained.wishes}, compiled with {wishes}",
            help="name the target of compile in prepare_qat",
        )


def _calibrate(module: QatModule, inputs: Inputs, batches: Batches | None, progress: Progress | None) -> None:
    """With the data given; otherwise with the example inputs, if eval mode has not collected ranges before."""
    if batches is not None:
        observe(module, batches, progress, inputs)
    elif any(bool(torch.isinf(observer.min_val)) for observer in module.ranges()):
        observe(module, [inputs], None, inputs)


def _remove_dropouts(module: GraphModule) -> None:
    for node in calls(module.graph, DROPOUTS):
        replace(node, node.args[0])  # type: ignore[arg-type]  # the schema says tensor
    for node in module.graph.find_nodes(op="get_attr"):
        if not node.users and constant_of(node) is not None:
            module.graph.erase_node(node)
    module.recompile()

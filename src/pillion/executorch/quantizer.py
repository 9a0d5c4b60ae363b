# SPDX-License-Identifier: Apache-2.0
"""Annotates models in torchao's flow as `pillion.compile` quantizes them."""

from __future__ import annotations

import pillion.importers.torch.quantize  # noqa: F401  # it imports torchao without that library's messages

# isort: split
from torch import nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantizer import Quantizer

from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import constant_of
from pillion.importers.torch.loop_nodes import has_loops
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.importers.torch.quantize.annotate import PillionQuantizer as CanonicalQuantizer
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.rewrite.layer_biases import LAYERS
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.targets import find_target


class PillionQuantizer(Quantizer):
    """Annotates a model for `prepare_pt2e`, or with `is_qat` for `prepare_qat_pt2e`, as `pillion.compile` would for the
    target. Nodes that another quantizer has annotated keep its annotation.

    Batch norms are folded before training; `pillion.prepare_qat` trains them, too."""

    def __init__(self, target: str, is_qat: bool = False) -> None:
        self.is_qat = is_qat
        self._quantizer = CanonicalQuantizer(Specs(training=is_qat), find_target(target).quantization)

    @property
    def float_ops(self) -> list[FloatOp]:
        """The calls of the annotated model that stay in float, each with the reason."""
        return self._quantizer.float_ops

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Rewrites a captured model in canonical form; called by torchao."""
        for guard in model.graph.find_nodes(op="call_module"):
            if not guard.users:
                model.graph.erase_node(guard)
        rewrite_for_quantization(model, self._quantizer.constraints)
        if has_loops(model.graph):
            raise PillionError(
                "a loop over time cannot go through prepare_pt2e",
                rule="the steps of recurrent layers share their ranges, which pillion.compile and pillion.prepare_qat see to",
                here="a recurrent layer, or a loop that was written out",
                help="pillion.compile(model, example_inputs, target=…, calibrate=samples)",
            )
        if self.is_qat:
            _make_trainable(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates how each tensor is quantized; called by torchao."""
        return self._quantizer.annotate(model)

    def validate(self, model: GraphModule) -> None:
        """Does nothing: `float_ops` lists the calls without int8 form."""


def _make_trainable(model: GraphModule) -> None:
    """Makes weights and biases of layers parameters again, after batch norms were folded into them."""
    for node in model.graph.nodes:
        for operand in node.args[1:3] if node.target in LAYERS else ():
            tensor = constant_of(operand)
            if tensor is not None and not isinstance(tensor, nn.Parameter):
                owner, _, name = str(operand.target).rpartition(".")
                holder = model.get_submodule(owner)
                delattr(holder, name)
                holder.register_parameter(name, nn.Parameter(tensor.clone()))

# SPDX-License-Identifier: Apache-2.0
"""The quantizer: writes torch's annotations from the rules of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from pillion.importers.torch.fx_nodes import (
    CLAMPS,
    aten,
    calls,
    constant_nodes,
    constant_of,
    fake_result,
    is_tensor,
    module_of,
    named_argument,
    operator_name,
    shape_of,
    single_user,
    source_line,
    torch_operators,
)
from pillion.importers.torch.log_mel import log_mel, spectra
from pillion.importers.torch.loop_nodes import CARRIED, LAST, loop_of
from pillion.importers.torch.quantize.concat_ranges import is_read_by_others
from pillion.importers.torch.quantize.shared_scales import NormParams, Sharing, Site
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.rewrite.batch_norm import shared_norms
from pillion.importers.torch.rewrite.clamp_masks import SOFTMAXES
from pillion.importers.torch.rewrite.complex_pairs import is_complex
from pillion.importers.torch.rewrite.functionalize import DROPOUTS, is_write
from pillion.importers.torch.rewrite.norm_calls import normalize_axes
from pillion.importers.torch.rows.quantization import RULES, QuantizationRule, rule_of
from pillion.importers.torch.rows.refusal_reasons import COMPLEX, MOVES, REASONS, WRITES
from pillion.importers.torch.train.batch_norm_calls import batch_norm
from pillion.importers.torch.train.folded_norms import simulated_layer
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.op import Quantization
from pillion.modules.filters import BIQUADS
from pillion.ops import Concat, Softmax

PICKS = (*torch_operators("reshape permute flip amax amin"), aten.slice.Tensor)
"""Calls whose results are elements of their one operand."""
NO_NUMBERS = "it has no form for whole numbers and booleans (docs/guide/numbers.md lists what has one); .float() makes them real"


@dataclass(frozen=True)
class FloatOp:
    """A call that stays in float32, its place in the model, and the reason."""

    op: str
    source: str
    reason: str
    name: str
    """Name of the graph's node."""
    module: str = ""

    def __str__(self) -> str:
        return f"{self.op} stays in float: {self.reason}  ({self.source or self.module or self.name})"


@dataclass
class PillionQuantizer(Quantizer):
    """Annotates a graph in canonical form. `float_ops` then lists the calls without a rule."""

    specs: Specs = field(default_factory=Specs)
    constraints: QuantizationConstraints = field(default_factory=QuantizationConstraints)
    states: int = 0
    """Number of last inputs and outputs that are buffers which forward writes to."""
    float_ops: list[FloatOp] = field(default_factory=list)

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates how each tensor is quantized; called by torch."""
        plan = plan_of(model, self.constraints, counted=self.specs.counted, states=self.states)
        self.float_ops = [
            FloatOp(operator_name(n), source_line(n), reason, n.name, module_of(n))
            for n, reason in plan.reasons.items()
            if n.target is not getitem
        ]
        Annotator(plan, self.specs, self.constraints).annotate(model)
        return model

    def validate(self, model: GraphModule) -> None:
        """Does nothing: a call is either in the plan or in `float_ops`."""


@dataclass
class AnnotationPlan:
    """Decisions about a graph: quantized calls, calls with the output range of a clamp, and shared parameters."""

    constants: frozenset[Node] = frozenset()
    """Nodes that depend on no input."""
    shared_norms: frozenset[Node] = frozenset()
    rules: dict[Node, QuantizationRule] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)
    fused: set[Node] = field(default_factory=set)
    sharing: Sharing = field(default_factory=Sharing)
    written: dict[Node, Node] = field(default_factory=dict)
    """By the read of a buffer, the value that forward writes to it."""


def plan_of(
    model: GraphModule, constraints: QuantizationConstraints, *, counted: bool = False, states: int = 0
) -> AnnotationPlan:
    """Decides for each call which rule quantizes it, or why it stays in float. With `counted` (calibration data
    exists), operands that not only a concatenation reads keep their own range, and softmax outputs of the model
    their own scale."""
    plan = AnnotationPlan(constant_nodes(model.graph), shared_norms(model.graph))
    for node in calls(model.graph):
        if is_write(node):
            plan.reasons[node] = WRITES
        elif node not in plan.constants and node.target not in DROPOUTS:
            reason = _float_reason(node)
            if reason:
                plan.reasons[node] = reason
            elif handles_reals(node):
                plan.rules[node] = rule_of(node)
    _leave_moves_between_floats(plan)
    plan.fused = {node for node in plan.rules if _takes_range_from_reader(node, plan)}
    _fix_states(plan)
    plan.written = _written_buffers(model, states)
    for node in plan.rules:
        _add_to_sharing_groups(node, plan, constraints, counted=counted)
    return plan


def _fix_states(plan: AnnotationPlan) -> None:
    """Gives a carried value the fixed parameters of the step's result."""
    leaves = {(loop_of(node), node.args[3]): node.args[1] for node in plan.rules if node.target is LAST}
    for node in plan.rules:
        if node.target is CARRIED:
            rule = plan.rules.get(leaves[loop_of(node), node.args[3]])  # type: ignore[arg-type]  # a node
            plan.sharing.add(node, rule.fixed if rule is not None else None)


def _written_buffers(model: GraphModule, states: int) -> dict[Node, Node]:
    """Returns the written values of buffers, by their reads."""
    inputs: Any = list(model.graph.find_nodes(op="placeholder"))
    outputs: Any = model.graph.output_node().args[0]
    return dict(zip(inputs[-states:], outputs[-states:], strict=True)) if states else {}


def handles_reals(node: Node) -> bool:
    """Whether a call computes with real numbers, not only with shapes and indices."""
    values = tree_leaves([fake_result(n) for n in (node, *node.all_input_nodes)])
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values)


def _before_dropouts(operand: Node) -> Node:
    """Returns the node behind dropouts, which exist in training only."""
    while operand.target in DROPOUTS:
        operand = operand.all_input_nodes[0]
    return operand


def _float_reason(node: Node) -> str:
    """Explains why a call stays in float; empty if it does not."""
    rule = RULES.get(node.target)
    if any(map(is_complex, (node, *node.all_input_nodes))):
        return str(REASONS.get(node.target, COMPLEX))
    if rule is None:
        return str(REASONS.get(node.target, "no int8 form" if handles_reals(node) else NO_NUMBERS))
    if not is_tensor(node) and not rule.numbers:
        value = fake_result(node)
        if not isinstance(value, torch.Tensor):
            return "its result is not a tensor"
        return f"its result is {value.dtype}" if value.is_floating_point() else NO_NUMBERS
    for operand in operands_of(node, rule):
        tensor = constant_of(operand)
        if not is_tensor(operand) and not rule.numbers:
            return f"an operand is {getattr(fake_result(operand), 'dtype', 'a number that is computed from tensors')}"
        if tensor is not None and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            return "a constant is not finite"
    return rule.refusal(node)


def operands_of(node: Node, rule: QuantizationRule) -> Iterator[Node]:
    """Yields the tensors that are quantized as activations, including constants, except integers and booleans."""
    for position in rule.operands:
        argument = node.args[position]
        members = argument if isinstance(argument, (list, tuple)) else (argument,)
        for member in members:
            if isinstance(member, Node) and (not rule.numbers or is_tensor(member)):
                yield member


def _leave_moves_between_floats(plan: AnnotationPlan) -> None:
    """Leaves moves in float if only float ops produce and read their values."""
    moves = {n for n, rule in plan.rules.items() if rule.quantization is Quantization.SHARED}
    while moves:
        island, frontier = set(), [next(iter(moves))]
        neighbours: set[Node] = set()
        while frontier:
            node = frontier.pop()
            island.add(node)
            around = {*operands_of(node, plan.rules[node]), *node.users}
            neighbours |= around - moves
            frontier += [n for n in around & moves if n not in island]
        moves -= island
        if neighbours & plan.reasons.keys() and not neighbours & plan.rules.keys():
            for node in island:
                del plan.rules[node]
                plan.reasons[node] = MOVES


def _takes_range_from_reader(node: Node, plan: AnnotationPlan) -> bool:
    """Whether the output range comes from a clamp, or from a batch norm to be folded."""
    user = single_user(node)
    if user is None or user not in plan.rules or not plan.rules[node].takes_clamp:
        return False
    return user.target in CLAMPS or (
        user.target is batch_norm and simulated_layer(user, plan.shared_norms) is node
    )


def _add_to_sharing_groups(
    node: Node, plan: AnnotationPlan, constraints: QuantizationConstraints, *, counted: bool
) -> None:
    """Adds a call's operands and result to the sharing groups."""
    rule, sharing = plan.rules[node], plan.sharing
    operands = [n for n in operands_of(node, rule) if n not in plan.fused]
    for operand in map(_before_dropouts, operands):
        if operand not in plan.constants:
            sharing.add(operand)
    if rule.quantization is Quantization.SHARED or rule.kind in constraints.shared:
        own = set()
        if counted and Concat.kind not in constraints.fixed and node.target is aten.cat.default:
            own = {
                operand
                for operand in operands
                if is_read_by_others(_before_dropouts(operand), plan.rules, plan.written)
            }
        _share_operands_and_result(node, operands, sharing, own)
        sharing.group(node).samples |= node.target is BIQUADS
    else:
        _share_with_producers(node, operands, sharing, symmetric=rule.kind in constraints.symmetric_operands)
        if node not in plan.fused and is_tensor(node):
            finer = rule.kind not in constraints.fixed and _accepts_any_softmax_scale(
                node, plan, constraints, outputs=counted
            )
            group = sharing.add(node, None if finer else rule.fixed)
            group.shares |= finer
            group.demanded |= rule.function is None or rule.kind in constraints.fixed


def _accepts_any_softmax_scale(
    softmax: Node, plan: AnnotationPlan, constraints: QuantizationConstraints, *, outputs: bool
) -> bool:
    """Whether softmax outputs only reach ops that rescale or pick them, or, with `outputs`, outputs of the model.

    The scores of a classifier, [N, classes], keep the scale that all runtimes give them."""
    if plan.rules[softmax].kind != Softmax.kind:
        return False
    outputs = outputs and (len(softmax.users) > 1 or len(shape_of(softmax)) > 2)
    open_ends = [softmax]
    while open_ends:
        for user in open_ends.pop().users:
            rule = plan.rules.get(user)
            if user.target in DROPOUTS or user.target in PICKS:
                open_ends.append(user)
            elif user.op == "output" and outputs:
                continue
            elif rule is None or rule.quantization is not Quantization.OWN or rule.kind in constraints.shared:
                return False
    return True


def _share_with_producers(node: Node, operands: list[Node], sharing: Sharing, *, symmetric: bool) -> None:
    """Operands share their producer's parameters, unless they must be symmetric and the parameters are fixed."""
    for operand in operands:
        edge, source = (operand, node), _before_dropouts(operand)
        fixed = sharing.group(source).fixed if source in sharing else None
        sharing.add(edge)
        takes_samples = node.target in (log_mel, spectra)
        joins = source in sharing and not (symmetric and fixed)
        if joins and (takes_samples or not sharing.group(source).samples):
            sharing.join(source, edge)
        sharing.group(edge).symmetric |= symmetric
        sharing.group(edge).samples |= takes_samples
        last = len(shape_of(node)) - 1
        sharing.group(edge).scores |= node.target in SOFTMAXES and node.args[1] in (-1, last)
        if node.target is normalize_axes and operand is node.args[0]:
            sharing.group(edge).norm = _norm_of(node)


def _norm_of(node: Node) -> NormParams | None:
    """Parameters of a norm over the last axes; None for other norms."""
    dims: Any = node.args[3]
    centred, eps, rank = bool(node.args[4]), float(node.args[5]), fake_result(node).dim()  # type: ignore[arg-type]  # a number
    is_last = sorted(d % rank for d in dims) == list(range(rank - len(dims), rank))
    return NormParams(len(dims), centred, eps) if is_last else None


def _share_operands_and_result(node: Node, operands: list[Node], sharing: Sharing, own: set[Node]) -> None:
    """Joins operands and result in one group. Operands with their own range or other fixed parameters are
    requantized on read."""
    sources = [node] if node in sharing else map(_before_dropouts, operands)
    fixed = {sharing.group(source).fixed for source in sources if source in sharing}
    common = fixed.pop() if len(fixed) == 1 else None
    if common is not None and not _constants_fit_range(common, node, operands):
        common = None
    sharing.add(node, common)
    for operand in operands:
        edge, source = (operand, node), _before_dropouts(operand)
        if edge not in sharing:
            sharing.add(edge, common)
        sharing.join(node, edge)
        if operand not in own and source in sharing and sharing.group(source).fixed == common:
            sharing.join(source, node)


def _constants_fit_range(fixed: tuple[float, int], node: Node, operands: list[Node]) -> bool:
    """Whether the constant operands fit the fixed range."""
    scale, zero_point = fixed
    low, high = (-128.5 - zero_point) * scale, (127.5 - zero_point) * scale
    tensors = [constant_of(operand) for operand in operands]
    extremes = [float(v) for t in tensors if t is not None and t.numel() for v in t.aminmax()]
    if node.target is aten.pad.default:
        extremes.append(float(named_argument(node, "value") or 0.0))
    return all(low <= value <= high for value in extremes)


@dataclass
class Annotator:
    """Writes a plan as annotations: a group's first site has its format, the remaining sites refer to it."""

    plan: AnnotationPlan
    specs: Specs
    constraints: QuantizationConstraints
    _first: dict[Site, Site] = field(default_factory=dict)
    _weights: dict[tuple[Node, int | None], Site] = field(default_factory=dict)

    def annotate(self, model: GraphModule) -> None:
        """Writes the plan into the nodes' metadata. Annotations of other quantizers stay, and readers of their results
        share the format."""
        for node in model.graph.nodes:
            foreign = node.meta.get(Q_ANNOTATION_KEY)
            if foreign is not None and foreign._annotated:
                if node in self.plan.sharing and foreign.output_qspec is not None:
                    self._first.setdefault(self.plan.sharing.root(node), node)
            elif node in self.plan.rules or node in self.plan.sharing:
                node.meta[Q_ANNOTATION_KEY] = self._quantization_annotation(node)

    def _quantization_annotation(self, node: Node) -> QuantizationAnnotation:
        inputs: dict[Node, QuantizationSpecBase | None] = {}
        rule = self.plan.rules.get(node)
        if rule is not None:
            for operand in dict.fromkeys(operands_of(node, rule)):
                if (operand, node) in self.plan.sharing and not self._is_rounded_before_dropout(
                    operand, node
                ):
                    inputs[operand] = self._quantization_spec((operand, node))
            if rule.weight is not None:
                weight: Any = node.args[rule.weight]
                axis = None if rule.kind in self.constraints.per_tensor_weights else rule.axis
                inputs[weight] = self._weight_spec(weight, node, axis)
        output = self._quantization_spec(node) if node in self.plan.sharing else None
        return QuantizationAnnotation(inputs, output, allow_implicit_sharing=False, _annotated=True)

    def _is_rounded_before_dropout(self, operand: Node, node: Node) -> bool:
        """Whether a dropout's result is rounded already; its scaled values do not exist on the device."""
        source, sharing = _before_dropouts(operand), self.plan.sharing
        return (
            source is not operand
            and source in sharing
            and sharing.root(source) == sharing.root((operand, node))
        )

    def _quantization_spec(self, site: Site) -> QuantizationSpecBase:
        root = self.plan.sharing.root(site)
        if root in self._first:
            return SharedQuantizationSpec(self._first[root])
        self._first[root] = site
        group = self.plan.sharing.group(site)
        if group.fixed is not None:
            is_fixed = group.demanded or not self.specs.counted
            return (self.specs.fixed if is_fixed else self.specs.function)(*group.fixed)
        if group.samples:
            return self.specs.samples
        if group.shares:
            return self.specs.shares
        if group.norm is not None and not group.symmetric and self.specs.counted:
            return self.specs.norm_operand(group.norm)
        if group.scores and not group.symmetric and self.specs.counted:
            return self.specs.scores
        return self.specs.symmetric if group.symmetric else self.specs.activation

    def _weight_spec(self, weight: Node, node: Node, axis: int | None) -> QuantizationSpecBase:
        """Returns the format of weights; layers that share weights share it."""
        first = self._weights.setdefault((weight, axis), (weight, node))
        return self.specs.weights(axis) if first == (weight, node) else SharedQuantizationSpec(first)

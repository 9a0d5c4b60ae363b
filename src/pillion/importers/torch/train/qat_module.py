# SPDX-License-Identifier: Apache-2.0
"""A model in training with rounding in place.

Parameters, buffers and submodules keep the model's names and classes, so that optimizers and freezing loops
work. The graph in `rounding` computes with the same tensors and rounds every activation."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from pillion.compile_options import Quantization
from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import calls, module_of
from pillion.importers.torch.loop_nodes import run_with_loops
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.importers.torch.rewrite.functionalize import DROPOUTS
from pillion.importers.torch.train.batch_norm_calls import UNTRACKED, batch_norm
from pillion.importers.torch.train.trained_ranges import SharedBatchRangeObserver
from pillion.importers.torch.user_inputs import unwrap_model
from pillion.ir.constraints import QuantizationConstraints

EIGHT_BITS = Quantization()
ROUNDING = "rounding"
"""Name of the child that computes; only it adds submodules (observers) to the model's."""
MOMENTUM = 6
TRAINING_ARGUMENT: dict[Any, int] = {batch_norm: 5, **dict.fromkeys(DROPOUTS, 2)}
"""Calls with a training mode, and the position of that argument."""
NOT_COMPILED = "torch.compile leaves modules of pillion.prepare_qat as they are: their ranges follow the data from call to call"


@dataclass(frozen=True)
class Preparation:
    """The origin and target of a prepared module."""

    name: str
    constraints: QuantizationConstraints
    inputs: tuple[Tensor, ...]
    """Example inputs, with which another process prepares the model again."""
    restore: Callable[..., QatModule]
    """Rebuilds the module from the model, this preparation, a state dict, and modes."""
    float_ops: tuple[FloatOp, ...] = ()
    any_batch: bool = True
    tuning: Quantization = EIGHT_BITS
    """Which tensors have 16 bits."""


class QatModule(nn.Module):
    """A model with rounding in place and with the model's parameters, buffers, submodules and modes.

    In train mode, activation ranges follow the data. In eval mode nothing changes, so that evaluation matches
    the compiled program; only before training does eval mode collect ranges, as calibration does."""

    batches_seen: Tensor
    rounding: GraphModule

    def __init__(self, rounding: GraphModule, origin: nn.Module, preparation: Preparation) -> None:
        super().__init__()
        self.preparation = preparation
        self.__dict__["_origin"] = (origin,)  # not shown as a submodule
        _hold_tensors(origin, rounding)
        for name in self._exposed_names():
            _copy_entry(origin, self, name)
        self.rounding = rounding
        self.register_buffer("batches_seen", torch.zeros((), dtype=torch.long))
        self.register_load_state_dict_post_hook(_link_loaded_tensors)  # type: ignore[no-untyped-call]  # of torch
        self._link_entries()
        self.train()

    @property
    def origin(self) -> nn.Module:
        """The float model, which shares these tensors."""
        model: nn.Module = self.__dict__["_origin"][0]
        return model

    @property
    def is_trained(self) -> bool:
        """Whether a batch has run in train mode."""
        return bool(self.batches_seen > 0)

    @torch.compiler.disable(reason=NOT_COMPILED)  # type: ignore[no-untyped-call, untyped-decorator]  # of torch
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Computes the outputs with rounding; in train mode, ranges follow the batch. Arguments may be passed by
        name."""
        ordered = (
            inputs
            if not named and all(isinstance(x, Tensor) for x in inputs)
            else self._in_order(inputs, named)
        )
        self.check_parts()
        self._apply_submodule_modes()
        if self.training:
            self.batches_seen += 1
        for observer in self.ranges():
            observer.begin_batch()
        return run_with_loops(self.rounding, *ordered)

    def train(self, mode: bool = True) -> QatModule:
        """Sets the mode of batch norms, dropouts and ranges."""
        super().train(mode)
        self.follow_modes()
        return self

    def follow_modes(self) -> None:
        """Applies the modules' modes to graph and ranges."""
        self._apply_submodule_modes()
        self._set_range_updates(self.training or not self.is_trained)

    def check_parts(self) -> None:
        """Raises if submodules were replaced since the graph was recorded."""
        before, now = self.__dict__["_recorded"], self._exposed_submodules()
        if before != now:
            changed = [path for path in {**now, **before} if before.get(path) != now.get(path)]
            raise PillionError(
                f"the prepared `{self.preparation.name}` has another part than it was prepared with",
                rule="what computes was recorded from the parts as they were",
                here=f"`{changed[0]}` was replaced, added, taken out, pruned or parametrized",
                help="change the float model, and prepare that: pillion.prepare_qat(model, example_inputs, target)",
            )

    def freeze_ranges(self, inputs: Sequence[Tensor]) -> None:
        """Updates weight ranges to the current weights."""
        self._set_range_updates(False)
        with torch.no_grad():
            run_with_loops(self.rounding, *inputs)

    def reset_ranges(self) -> None:
        """Lets ranges follow further data, in eval mode, too."""
        self.batches_seen.zero_()
        self.eval()

    def ranges(self) -> list[SharedBatchRangeObserver]:
        """Returns the observers of all activations."""
        return [part for part in self.rounding.modules() if isinstance(part, SharedBatchRangeObserver)]

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Returns weights and statistics under the model's names, ranges under `rounding`, each once."""
        entries = super().state_dict(*args, **options)
        prefix = options.get("prefix", args[1] if len(args) > 1 else "")
        for key in [
            k for k in entries if self._is_repeated_key(k.removeprefix(prefix)) and k.startswith(prefix)
        ]:
            del entries[key]
        return entries

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Loads a state dict of this module or of the float model, which leaves the ranges unchanged."""
        names = {*self.origin._parameters, *self.origin._buffers, *self.origin._modules}
        keys = [k for k in state_dict if k.startswith(prefix) and k[len(prefix) :].partition(".")[0] in names]
        for key in keys:
            state_dict[f"{prefix}{ROUNDING}.{key.removeprefix(prefix)}"] = state_dict[key]
            if not self._is_exposed(key.removeprefix(prefix)):
                del state_dict[key]
        ranges = {
            f"{prefix}{k}": v for k, v in self.state_dict().items() if not self._is_key_of_tensor(k, names)
        }
        if keys and not ranges.keys() & state_dict.keys():
            state_dict.update(ranges)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> QatModule:
        dtype = fn(torch.zeros(1)).dtype
        if dtype.is_floating_point and dtype != torch.float32:
            raise PillionError(
                f"the prepared `{self.preparation.name}` cannot be {str(dtype).removeprefix('torch.')}",
                rule="ranges and weights are float32 while rounding is learned",
                here=str(dtype),
                help='torch.autocast("cuda", torch.bfloat16) around the forward computes in 16 bits what may be',
            )
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # of torch
        self._link_entries()
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> QatModule:
        """Copies the module; the copied graph reads the copied tensors."""
        self.check_parts()
        clone = type(self).__new__(type(self))
        memo[id(self)] = clone
        state = {
            name: value for name, value in self.__dict__.items() if name not in ("_switched", "_recorded")
        }
        clone.__dict__.update(copy.deepcopy(state, memo))
        clone._link_entries()
        return clone

    def __reduce__(self) -> Any:
        """Stores the model and all tensors; loading prepares it again, because graphs cannot be stored."""
        modes = [part.training for part in self.origin.modules()]
        return self.preparation.restore, (
            self.origin,
            self.preparation,
            self.state_dict(),
            modes,
            self.training,
        )

    def __getattr__(self, name: str) -> Any:
        """Returns attributes of the model such as `num_classes`. Its methods are refused, because they would
        compute without rounding."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            origin = self.__dict__.get("_origin", (None,))[0]
            if name in getattr(origin, "__dict__", ()) and not name.startswith("_"):
                return origin.__dict__[name]
            if callable(getattr(type(origin), name, None)):
                raise AttributeError(
                    f"`{name}` is a method of the model, which would compute without rounding: call the prepared module itself"
                ) from None
            raise

    def _in_order(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Tensor]:
        """Tensors in the order of the model's arguments. Raises if another argument differs from its recorded
        value."""
        signature = inspect.signature(self.origin.forward)
        tensors: list[Tensor] = []
        for name, value in signature.bind(*inputs, **named).arguments.items():
            parts = value if isinstance(value, tuple) else (value,)
            if all(isinstance(part, Tensor) for part in parts):
                tensors += parts
            elif value is not (default := signature.parameters[name].default) and value != default:
                raise PillionError(
                    f"the prepared `{self.preparation.name}` has one way through forward",
                    rule="arguments that are no tensors have the values that they had in prepare_qat",
                    here=f"{name}={value!r}",
                    help="prepare a module whose forward does that, with tensors as its arguments",
                )
        return tensors

    def _exposed_names(self) -> list[str]:
        """Names of the model's submodules and tensors that this module exposes."""
        tables = (self.origin._parameters, self.origin._buffers, self.origin._modules)
        return [
            n
            for table in tables
            for n in table
            if not hasattr(QatModule, n) and n not in (ROUNDING, "preparation", "batches_seen")
        ]

    def _is_exposed(self, key: str) -> bool:
        return key.partition(".")[0] in self._exposed_names()

    @staticmethod
    def _is_key_of_tensor(key: str, names: Container[str]) -> bool:
        """Whether a state dict key belongs to a tensor of the model."""
        first, _, rest = key.partition(".")
        return (rest.partition(".")[0] if first == ROUNDING else first) in names

    def _is_repeated_key(self, key: str) -> bool:
        first, _, rest = key.partition(".")
        return first == ROUNDING and self._is_exposed(rest)

    def _link_entries(self) -> None:
        """Shares this module's entries with the graph and the model."""
        for name in self._exposed_names():
            _copy_entry(self, self.origin, name)
            _copy_entry(self, self.rounding, name)
        self.__dict__["_switched"] = list(self._mode_dependent_calls())
        self.__dict__.setdefault("_recorded", self._exposed_submodules())

    def _exposed_submodules(self) -> dict[str, tuple[nn.Module, tuple[str, ...]]]:
        """Submodules of the model as exposed here, with their parameter names."""
        children = {name: child for name, child in self._modules.items() if child and name != ROUNDING}
        return {
            path: (part, tuple(part._parameters))
            for name, child in children.items()
            for path, part in child.named_modules(prefix=name)
        }

    def _mode_dependent_calls(self) -> Iterator[tuple[Node, nn.Module]]:
        """Yields calls with a training mode, and the submodule that sets it."""
        for node in calls(self.rounding.graph, TRAINING_ARGUMENT):
            if len(node.args) > TRAINING_ARGUMENT[node.target]:
                yield node, self._submodule_of_call(node)

    def _submodule_of_call(self, node: Node) -> nn.Module:
        mean: Any = node.args[3] if node.target is batch_norm else None
        path = str(mean.target).rpartition(".")[0] if mean is not None else module_of(node)
        try:
            part: nn.Module = self.origin.get_submodule(path)
        except AttributeError:
            return self
        return self if part is self.origin else part

    def _apply_submodule_modes(self) -> None:
        """Applies the modes of single submodules to the graph."""
        changed = [node for node, part in self._switched if _apply_call_mode(node, part)]
        if changed:
            self.rounding.recompile()

    def _set_range_updates(self, follow: bool) -> None:
        for part in self.rounding.children():
            if isinstance(getattr(part, "activation_post_process", None), SharedBatchRangeObserver):
                part.enable_observer(follow)  # type: ignore[operator]  # a FakeQuantize


def float_weights(trained: Any) -> dict[str, Tensor]:
    """Returns copies of the trained weights under the float model's names."""
    module = unwrap_model(trained)
    if not isinstance(module, QatModule):
        raise PillionError(
            "this module was not prepared for training",
            rule="float_weights takes what prepare_qat gave",
            here=f"a {type(module).__name__}",
            help="a model that was not prepared has its weights in model.state_dict()",
        )
    return {key: value.detach().clone() for key, value in module.origin.state_dict().items()}


def _apply_call_mode(node: Node, part: nn.Module) -> bool:
    """Applies a submodule's mode and momentum to a call. Returns whether they changed."""
    before = list(node.args)
    after = list(before)
    after[TRAINING_ARGUMENT[node.target]] = part.training
    if node.target is batch_norm and isinstance(part, nn.modules.batchnorm._BatchNorm):
        after[MOMENTUM] = part.momentum if part.track_running_stats else UNTRACKED
    if after != before:
        node.args = tuple(after)
    return after != before


def _hold_tensors(origin: nn.Module, rounding: GraphModule) -> None:
    """Registers the graph's tensors in the model, including plain attributes, so that they move with the module."""
    for node in rounding.graph.find_nodes(op="get_attr"):
        path, _, field = str(node.target).rpartition(".")
        submodule: Any = rounding.get_submodule(path)
        try:
            owner = origin.get_submodule(path)
        except AttributeError:
            continue
        tensor = getattr(submodule, field)
        table = owner._parameters if isinstance(tensor, nn.Parameter) else owner._buffers
        if not hasattr(owner, field) or table.get(field) is tensor:
            continue
        if field not in table:
            owner.__dict__.pop(field, None)
            owner.register_buffer(field, tensor, persistent=False)
        table[field] = tensor


def _copy_entry(source: nn.Module, goal: nn.Module, name: str) -> None:
    """Copies a parameter, buffer or submodule entry, and removes entries of the same name from other tables."""
    for table in ("_parameters", "_buffers", "_modules"):
        if name in getattr(source, table):
            for other_table in ("_parameters", "_buffers", "_modules"):
                if other_table != table:
                    getattr(goal, other_table).pop(name, None)
            getattr(goal, table)[name] = getattr(source, table)[name]
    if name in source._non_persistent_buffers_set:
        goal._non_persistent_buffers_set.add(name)


def _link_loaded_tensors(module: nn.Module, result: Any) -> None:
    """Drops repeated keys from the missing ones, and links the loaded tensors."""
    assert isinstance(module, QatModule)
    repeated = [
        key for key in result.missing_keys if module._is_repeated_key(ROUNDING + key.rpartition(ROUNDING)[2])
    ]
    for key in repeated:
        result.missing_keys.remove(key)
    module._link_entries()
    module.follow_modes()

# SPDX-License-Identifier: Apache-2.0
"""Arguments of a model that are no tensors: sizes, axes, `None`, tuples of these. A program has them as they were in the example.

Numbers alone are inputs where that is possible, so that they may change from run to run; where forward needs to know them while it is
captured, they are settings too."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from pillion.errors import PillionError, warn
from pillion.importers.torch.export import export
from pillion.importers.torch.given import ARRAYS, as_inputs, in_words, is_list_of_numbers

UNTRACEABLE = "torch cannot export"
"""How the refusal begins of a forward that cannot be captured."""
READS_A_NUMBER = torch.ops.aten._local_scalar_dense.default
"""What makes a number of a tensor."""


class WithSettings(nn.Module):
    """A module that is called with the tensors of its arguments, while the others are as they were."""

    def __init__(self, held: nn.Module, arguments: Arguments) -> None:
        super().__init__()
        self.held = held
        self.arguments = arguments

    def forward(self, *tensors: Tensor) -> Any:
        """Calls the module with all of its arguments."""
        return self.held(*self.arguments.whole(tensors))


@dataclass(frozen=True)
class Arguments:
    """The arguments of a forward: where the tensors are in them, and what stands elsewhere."""

    spec: Any
    """The form of tuples, lists and dictionaries in one another."""
    leaves: tuple[Any, ...]
    """What they hold, with nothing where a tensor is."""
    tensors: tuple[int, ...]
    """The places of the tensors."""
    names: tuple[str, ...]
    """The names of the tensors."""

    def whole(self, tensors: Sequence[Any]) -> Any:
        """Gives all arguments, with these tensors among them."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = tensor
        return pytree.tree_unflatten(leaves, self.spec)

    def of_sample(self, sample: Any) -> Any:
        """Gives the tensors of a sample that has all arguments, perhaps with a label behind them; others as they are."""
        count = self.spec.num_children
        if not isinstance(sample, (tuple, list)) or len(sample) not in (count, count + 1):
            return sample
        leaves, spec = pytree.tree_flatten(tuple(sample[:count]))
        if spec != self.spec:
            return sample
        for place, leaf in enumerate(leaves):
            if place not in self.tensors and leaf != self.leaves[place]:
                raise _another_setting(self.leaves[place], leaf)
        return tuple(leaves[place] for place in self.tensors)


@dataclass(frozen=True)
class Samples:
    """Samples of a model with settings, as samples of its tensors."""

    given: Iterable[Any]
    arguments: Arguments

    def __iter__(self) -> Iterator[Any]:
        return map(self.arguments.of_sample, self.given)


def settled(model: Any, example_inputs: Any, calibrate: Any = None) -> tuple[Any, tuple[Tensor, ...], Any]:
    """Gives a model that takes tensors alone, example inputs and calibration data for it: the same ones, where it takes no others."""
    arguments = _arguments(model, example_inputs)
    if arguments is None:
        return model, as_inputs(example_inputs, "example_inputs"), calibrate
    if not arguments.tensors:
        raise PillionError(
            "the model has no input",
            rule="one argument at least is a tensor: numbers that forward needs while it is captured are fixed",
            here=in_words(example_inputs),
            help="give it a tensor: torch.tensor(…), or torch.randn(1, 3, 32, 32)",
        )
    leaves = pytree.tree_flatten(tuple(example_inputs))[0]
    inputs = as_inputs(tuple(leaves[place] for place in arguments.tensors), "example_inputs")
    is_data = isinstance(calibrate, Iterable) and not isinstance(calibrate, str)
    data = Samples(calibrate, arguments) if is_data and not hasattr(calibrate, "samples") else calibrate
    warn(f"arguments that are no tensors are fixed: {_in_words(arguments)}")
    return _with_settings(model, arguments), inputs, data


def _arguments(model: Any, given: Any) -> Arguments | None:
    """The arguments of a model that takes more than tensors, and numbers in their place."""
    if not isinstance(model, nn.Module) or not isinstance(given, (tuple, list)) or is_list_of_numbers(given):
        return None
    numbers = [isinstance(x, (bool, int, float)) or is_list_of_numbers(x) for x in given]
    arrays = [isinstance(x, ARRAYS) for x in given]
    if all(arrays) or not given:
        return None
    if all(n or a for n, a in zip(numbers, arrays, strict=True)) and _takes_tensors(model, given):
        return None
    leaves, spec = pytree.tree_flatten(tuple(given))
    tensors = tuple(place for place, leaf in enumerate(leaves) if isinstance(leaf, ARRAYS))
    kept = tuple(None if isinstance(leaf, ARRAYS) else leaf for leaf in leaves)
    return Arguments(spec, kept, tensors, tuple(_names(model, given)))


def _takes_tensors(model: nn.Module, given: Sequence[Any]) -> bool:
    """Whether a model can be captured with tensors for numbers. What else may be wrong is said later."""
    try:
        exported: ExportedProgram = export(model, as_inputs(given, "example_inputs"))
    except PillionError as error:
        return not error.what.startswith(UNTRACEABLE)
    return not any(node.target is READS_A_NUMBER for node in exported.graph.nodes)


def _names(model: nn.Module, given: Sequence[Any]) -> Iterator[str]:
    """A name for each tensor: that of its argument, with a number where this holds several."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    for place, argument in enumerate(given):
        one = parameters[min(place, len(parameters) - 1)] if parameters else None
        is_rest = one is None or one.kind is inspect.Parameter.VAR_POSITIONAL
        name = f"{one.name if one else 'x'}_{place}" if is_rest else one.name  # type: ignore[union-attr]  # not None
        leaves = pytree.tree_leaves(argument)
        held = [number for number, leaf in enumerate(leaves) if isinstance(leaf, ARRAYS)]
        yield from [name] if len(leaves) == 1 and held else [f"{name}_{number}" for number in held]


def _with_settings(model: nn.Module, arguments: Arguments) -> nn.Module:
    """The model behind a forward that has an argument for each tensor: messages and inputs are named as the user named them."""

    def forward(self: WithSettings, *tensors: Tensor) -> Any:
        return WithSettings.forward(self, *tensors)

    kind = inspect.Parameter.POSITIONAL_ONLY
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect looks for
        [inspect.Parameter(name, kind) for name in ("self", *arguments.names)]
    )
    of = type(model)
    named: type[nn.Module] = type(
        of.__name__, (WithSettings,), {"forward": forward, "__module__": of.__module__}
    )
    return named(model, arguments).train(model.training)


def _in_words(arguments: Arguments) -> str:
    rest = [leaf for place, leaf in enumerate(arguments.leaves) if place not in arguments.tensors]
    return ", ".join(map(repr, rest))


def _another_setting(wanted: Any, found: Any) -> PillionError:
    return PillionError(
        "a sample has another setting than the example inputs",
        rule="arguments that are no tensors are fixed when a model is compiled",
        here=f"{found!r} instead of {wanted!r}",
        help="give samples the arguments of the example inputs, or the tensors alone",
    )

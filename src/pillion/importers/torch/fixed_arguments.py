# SPDX-License-Identifier: Apache-2.0
"""Fixes arguments of a model that are not tensors (sizes, axes, `None`, tuples of these) to their values in the
example.

Numbers stay inputs if the model can be captured with tensors for them; otherwise they are fixed, too."""

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
from pillion.importers.torch.export import export, specialize_sizes
from pillion.importers.torch.user_inputs import ARRAYS, as_inputs, describe_value, is_list_of_numbers

EXPORT_FAILURE = "torch cannot export"
"""First words of the error for a forward that cannot be captured."""
SCALAR_READ = torch.ops.aten._local_scalar_dense.default
"""Operator that converts a tensor into a Python number."""


class FixedArgumentsModule(nn.Module):
    """Calls a module with its tensor arguments; all others are fixed."""

    def __init__(self, module: nn.Module, arguments: Arguments) -> None:
        super().__init__()
        self.module = module
        self.arguments = arguments

    def forward(self, *tensors: Tensor) -> Any:
        """Calls the module with all of its arguments."""
        return self.module(*self.arguments.with_tensors(tensors))


@dataclass(frozen=True)
class Arguments:
    """The arguments of a forward: positions of tensors, and values of all others."""

    spec: Any
    """Nesting of tuples, lists and dictionaries."""
    leaves: tuple[Any, ...]
    """Flattened values, None in place of tensors."""
    tensors: tuple[int, ...]
    """Positions of the tensors among the leaves."""
    names: tuple[str, ...]
    """Names of the tensors."""

    def with_tensors(self, tensors: Sequence[Any]) -> Any:
        """Returns all arguments, with `tensors` filled in."""
        leaves = list(self.leaves)
        for index, tensor in zip(self.tensors, tensors, strict=True):
            leaves[index] = tensor
        return pytree.tree_unflatten(leaves, self.spec)

    def tensors_of(self, sample: Any) -> Any:
        """Returns the tensors of a sample that has all arguments and perhaps a label; other samples unchanged."""
        count = self.spec.num_children
        if not isinstance(sample, (tuple, list)) or len(sample) not in (count, count + 1):
            return sample
        leaves, spec = pytree.tree_flatten(tuple(sample[:count]))
        if spec != self.spec:
            return sample
        for index, leaf in enumerate(leaves):
            if index not in self.tensors and leaf != self.leaves[index]:
                raise PillionError(
                    "a sample has another setting than the example inputs",
                    rule="arguments that are no tensors are fixed when a model is compiled",
                    here=f"{leaf!r} instead of {self.leaves[index]!r}",
                    help="give samples the arguments of the example inputs, or the tensors alone",
                )
        return tuple(leaves[index] for index in self.tensors)


@dataclass(frozen=True)
class Samples:
    """Samples reduced to the tensors among a model's arguments."""

    given: Iterable[Any]
    arguments: Arguments

    def __iter__(self) -> Iterator[Any]:
        return map(self.arguments.tensors_of, self.given)

    def __len__(self) -> int:
        return len(self.given)  # type: ignore[arg-type]  # raises as that of the samples does


def fix_arguments(
    model: Any, example_inputs: Any, calibrate: Any = None
) -> tuple[Any, tuple[Tensor, ...], Any]:
    """Returns a model that takes only tensors, with its example inputs and calibration data. A model without fixed
    arguments is returned unchanged."""
    if isinstance(model, ExportedProgram) and has_nested_arguments(model):
        model = model.module(check_guards=False)
    arguments = _split_arguments(model, example_inputs)
    if arguments is None:
        inputs = as_inputs(example_inputs, "example_inputs")
        is_exported = isinstance(model, ExportedProgram)
        return specialize_sizes(model, inputs) if is_exported else model, inputs, calibrate
    if not arguments.tensors:
        raise PillionError(
            "the model has no input",
            rule="one argument at least is a tensor: numbers that forward needs while it is captured are fixed",
            here=describe_value(example_inputs),
            help="give it a tensor: torch.tensor(…), or torch.randn(1, 3, 32, 32)",
        )
    leaves = pytree.tree_flatten(tuple(example_inputs))[0]
    inputs = as_inputs(tuple(leaves[index] for index in arguments.tensors), "example_inputs")
    is_data = isinstance(calibrate, Iterable) and not isinstance(calibrate, str)
    data = Samples(calibrate, arguments) if is_data and not hasattr(calibrate, "samples") else calibrate
    if fixed := _describe_fixed(arguments):
        warn(f"arguments that are no tensors are fixed: {fixed}")
    return _wrap_with_fixed_arguments(model, arguments), inputs, data


def has_nested_arguments(exported: ExportedProgram) -> bool:
    """Whether an argument of an exported program is a tuple, list or dictionary."""
    return any(not one.is_leaf() for part in exported.call_spec.in_spec.children() for one in part.children())


def _split_arguments(model: Any, arguments: Any) -> Arguments | None:
    """Arguments of a call with values other than tensors and numbers; None if all can be inputs."""
    if (
        not isinstance(model, nn.Module)
        or not isinstance(arguments, (tuple, list))
        or is_list_of_numbers(arguments)
    ):
        return None
    numbers = [isinstance(x, (bool, int, float)) or is_list_of_numbers(x) for x in arguments]
    arrays = [isinstance(x, ARRAYS) for x in arguments]
    if all(arrays) or not arguments:
        return None
    if all(n or a for n, a in zip(numbers, arrays, strict=True)) and _accepts_tensors_for_numbers(
        model, arguments
    ):
        return None
    leaves, spec = pytree.tree_flatten(tuple(arguments))
    tensors = tuple(index for index, leaf in enumerate(leaves) if isinstance(leaf, ARRAYS))
    fixed = tuple(None if isinstance(leaf, ARRAYS) else leaf for leaf in leaves)
    return Arguments(spec, fixed, tensors, tuple(_tensor_argument_names(model, arguments)))


def _accepts_tensors_for_numbers(model: nn.Module, arguments: Sequence[Any]) -> bool:
    """Whether a model can be captured with tensors for its numbers. Other errors are reported later."""
    try:
        exported: ExportedProgram = export(model, as_inputs(arguments, "example_inputs"))
    except PillionError as error:
        return not error.what.startswith(EXPORT_FAILURE)
    return not any(node.target is SCALAR_READ for node in exported.graph.nodes)


def _tensor_argument_names(model: nn.Module, arguments: Sequence[Any]) -> Iterator[str]:
    """Yields a name per tensor: its argument's name, with a number if the argument holds several."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    for index, argument in enumerate(arguments):
        parameter = parameters[min(index, len(parameters) - 1)] if parameters else None
        is_rest = parameter is None or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        name = f"{parameter.name if parameter else 'x'}_{index}" if is_rest else parameter.name  # type: ignore[union-attr]  # not None
        leaves = pytree.tree_leaves(argument)
        positions = [number for number, leaf in enumerate(leaves) if isinstance(leaf, ARRAYS)]
        yield from [name] if len(leaves) == 1 and positions else [f"{name}_{number}" for number in positions]


def _wrap_with_fixed_arguments(model: nn.Module, arguments: Arguments) -> nn.Module:
    """Wraps the model in a forward with one named argument per tensor, so that messages use the user's names."""

    def forward(self: FixedArgumentsModule, *tensors: Tensor) -> Any:
        return FixedArgumentsModule.forward(self, *tensors)

    kind = inspect.Parameter.POSITIONAL_ONLY
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect looks for
        [inspect.Parameter(name, kind) for name in ("self", *arguments.names)]
    )
    of = type(model)
    named: type[nn.Module] = type(
        of.__name__, (FixedArgumentsModule,), {"forward": forward, "__module__": of.__module__}
    )
    module = named(model, arguments)
    module.training = model.training
    return module


def _describe_fixed(arguments: Arguments) -> str:
    rest = [leaf for index, leaf in enumerate(arguments.leaves) if index not in arguments.tensors]
    return ", ".join(map(repr, rest))

# SPDX-License-Identifier: Apache-2.0
"""What modules that stand for files share: inputs and operators with the file's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from pillion.ir.graph import UniqueNames, c_identifier


class FileOperator(nn.Module):
    """Computes one operator of a file: the module that `explain` and refusals name."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, *operands: Tensor | None) -> Any:
        """Computes the results of the operator."""
        return self.compute(*operands)


def named_inputs(compute: Callable[..., Any], names: Iterable[str]) -> Callable[..., Any]:
    """Returns a function that calls `compute`, with arguments of a file's names: torch.export names the inputs by them."""
    fresh, kind = UniqueNames(), inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(fresh.fresh(c_identifier(name)), kind) for name in names]

    def forward(*given: Tensor) -> Any:
        return compute(*given)

    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
    return forward

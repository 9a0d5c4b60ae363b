# SPDX-License-Identifier: Apache-2.0
"""The user's float model as a runnable reference for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule

from pillion.errors import PillionError
from pillion.importers.torch import capture
from pillion.importers.torch.export import export, quiet_torch
from pillion.importers.torch.fixed_arguments import fix_arguments
from pillion.importers.torch.fx_nodes import calls
from pillion.importers.torch.input_types import cast_to_model
from pillion.importers.torch.loop_nodes import has_loops, run_with_loops
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.train.qat_module import QatModule
from pillion.importers.torch.user_inputs import require_model
from pillion.ir.types import Array

BATCH_TOLERANCE = 1e-3
"""Tolerance, relative to the largest output, between a batched run and single runs of the same samples."""


@dataclass
class TorchModel:
    """A float model that runs samples, batched if that gives the same results."""

    name: str
    exported: ExportedProgram
    input_shapes: tuple[tuple[int, ...], ...]
    _runs: list[GraphModule] = field(default_factory=list, repr=False)
    _takes_batches: bool | None = None
    _first: dict[str, Tensor] = field(init=False, repr=False)
    """The buffers before the first run, if the graph writes into tensors."""

    def __post_init__(self) -> None:
        writes = any(
            getattr(node.target, "_schema", None) and node.target._schema.is_mutable
            for node in self.exported.graph.nodes
        )
        buffers = self.module().named_buffers() if writes else ()
        self._first = {name: buffer.detach().clone() for name, buffer in buffers}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": []}

    def outputs(self, runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        """Returns the outputs of each run, for inputs of the example shapes."""
        if self._takes_batches and len(runs) > 1:
            return self._run_batch(runs)
        alone = [self._run([torch.from_numpy(np.ascontiguousarray(x)) for x in xs]) for xs in runs]
        if self._takes_batches is None and len(runs) > 1:
            self._takes_batches = self._is_batchable(runs, alone)
        return alone

    def module(self) -> GraphModule:
        """Returns a new copy of the model as a graph module."""
        with quiet_torch():
            return self.exported.module(check_guards=False)

    def _run(self, inputs: Sequence[Tensor]) -> tuple[Array, ...]:
        """Returns the outputs of a run from the first states, as programs run samples."""
        if not self._runs:
            self._runs.append(self.module())
        for name, first in self._first.items():
            self._runs[0].get_buffer(name).copy_(first)
        with torch.no_grad():
            own = cast_to_model(self._runs[0].graph, inputs)
            # `forward` is not a call, which would want the batch of the example.
            graph = self._runs[0]
            outputs = run_with_loops(graph, *own) if has_loops(graph.graph) else graph.forward(*own)
        some = (
            outputs.values()
            if isinstance(outputs, dict)
            else outputs
            if isinstance(outputs, (tuple, list))
            else (outputs,)
        )
        return tuple(y.detach().cpu().resolve_neg().numpy() for y in some if isinstance(y, Tensor))

    def _has_changed_buffers(self) -> bool:
        """Whether the last run has changed a buffer."""
        return any(
            not torch.equal(self._runs[0].get_buffer(name), first) for name, first in self._first.items()
        )

    def _run_batch(self, runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        rows = len(runs[0][0])
        inputs = [torch.from_numpy(np.concatenate(column)) for column in zip(*runs, strict=True)]
        outputs = self._run(inputs)
        if any(len(y) != rows * len(runs) for y in outputs):
            raise ValueError("an output without a row for each sample")
        return [tuple(y[at : at + rows] for y in outputs) for at in range(0, rows * len(runs), rows)]

    def _is_batchable(self, runs: Sequence[Sequence[Array]], alone: Sequence[tuple[Array, ...]]) -> bool:
        """Whether batched samples give the same results as single ones; a model may be written for batch 1.

        torch does not check that the states of a recurrent layer have the batch of its sequence, and writes
        beyond them. Models that remember take one sample after the other."""
        if self._has_changed_buffers() or calls(self.exported.graph, LAYERS):
            return False
        if any(not x.ndim for x in runs[0]) or any(not y.ndim for y in alone[0]):
            return False
        try:
            together = self._run_batch(runs)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            return False
        pairs = [
            (a, b)
            for some, others in zip(alone, together, strict=True)
            for a, b in zip(some, others, strict=True)
        ]
        return all(a.shape == b.shape and _is_close(a, b) for a, b in pairs)


def _is_close(some: Array, others: Array) -> bool:
    a, b = some.astype(np.float64), others.astype(np.float64)
    return bool(np.abs(a - b).max(initial=0) <= BATCH_TOLERANCE * max(float(np.abs(a).max(initial=0)), 1e-30))


def float_model(
    model: Any,
    example_inputs: Any = None,
    *,
    input_size: capture.InputSize = None,
    weights: str | Path | None = None,
    trust_pickle: bool = False,
    preprocess: Any = None,
) -> TorchModel:
    """Returns the float model of a name, a module or an exported program."""
    if isinstance(model, (str, Path)):
        source = capture.load_model(
            str(model),
            input_size=input_size,
            weights=weights,
            trust_pickle=trust_pickle,
            preprocess=preprocess,
        )
        module, exported, inputs, name = source.module, source.exported, source.example_inputs, source.name
    else:
        module, inputs, _ = fix_arguments(require_model(model), example_inputs)
        exported = module if isinstance(module, ExportedProgram) else export(module, inputs)
        name = type(module).__name__.lower()
    _require_float(module, name)
    return TorchModel(name, exported, tuple(tuple(x.shape) for x in inputs))


def _require_float(model: nn.Module | ExportedProgram | None, name: str) -> None:
    if isinstance(model, QatModule):
        raise PillionError(
            f"`{name}` is prepared for training in int8",
            rule="the float model is the module as it was before prepare_qat",
            here="a module from prepare_qat",
            help="name the model with the trained weights instead, or leave the float model out",
        )

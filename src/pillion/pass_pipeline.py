# SPDX-License-Identifier: Apache-2.0
"""The pipeline: all graph passes of a compilation, in order, each with the programs that it runs for.

The compiler runs these steps, and `pillion passes` prints them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pillion import passes
from pillion.compile_options import CompileOptions
from pillion.devices.device import Device
from pillion.ir.graph import Graph
from pillion.ir.verify import verify_graph
from pillion.ops.persistent_state import with_persistent_states
from pillion.ops.state_bindings import bind_states
from pillion.ops.state_io import states_as_io
from pillion.registry import REGISTRY
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import NPUS


@dataclass(frozen=True)
class Step:
    """A pass and the condition under which it runs."""

    function: Callable[..., Graph]
    when: str = "always"
    runs: Callable[[Graph, CompileOptions], bool] = lambda graph, options: True
    arguments: Callable[[CompileOptions], tuple[Any, ...]] | None = None
    """Its arguments besides the graph. A pass with arguments is not applied to the bodies of loops."""

    @property
    def name(self) -> str:
        """The name of the pass, as in `--intermediates`."""
        return self.function.__name__

    @property
    def sentence(self) -> str:
        """The first sentence of its documentation."""
        return " ".join((inspect.getdoc(self.function) or "").split()).partition(". ")[0].rstrip(".") + "."

    def apply(self, graph: Graph, options: CompileOptions, watch: passes.Watch | None) -> Graph:
        """Runs the pass if its condition holds."""
        if not self.runs(graph, options):
            return graph
        if self.arguments is None:
            return passes.apply(self.function, graph, watch)
        graph = verify_graph(self.function(graph, *self.arguments(options)), self.name)
        if watch:
            watch(self.name, graph)
        return graph


def _no_arguments(options: CompileOptions) -> tuple[Any, ...]:
    return ()


def _has_stream_inputs(graph: Graph, options: CompileOptions) -> bool:
    return bool(options.stream.inputs)


def integer_steps() -> tuple[Step, ...]:
    """Returns the passes after which every op between inputs and outputs computes in integers."""
    return (
        *map(Step, passes.PIPELINE),
        *(
            Step(one, "in arithmetic tflite", lambda graph, _: graph.arithmetic.is_tflite)
            for one in (passes.legalize_embedding_bags, passes.sum_hard_sigmoids, passes.decompose_silu)
        ),
        Step(passes.int8_io, "--io-dtype int8", lambda _, options: options.io.dtype == "int8", _no_arguments),
        Step(
            passes.int16_io, "--io-dtype int16", lambda _, options: options.io.dtype == "int16", _no_arguments
        ),
        Step(
            passes.uint8_io, "--io-dtype uint8", lambda _, options: options.io.dtype == "uint8", _no_arguments
        ),
        *REGISTRY.passes.values(),
    )


CONSTANTS = Step(passes.materialize_constants, arguments=_no_arguments)
"""The step after which no graph output is a constant or an input."""
STATE_STEPS = (
    Step(to_stream_graph, "--stream", _has_stream_inputs, lambda options: (options.stream,)),
    *(Step(one, "--stream", _has_stream_inputs) for one in passes.AFTER_STREAMING),
    Step(
        with_persistent_states,
        "--stateful, without --stream",
        lambda graph, options: options.io.stateful and not _has_stream_inputs(graph, options),
        _no_arguments,
    ),
    Step(
        bind_states,
        "--state-pair",
        lambda _, options: bool(options.io.state_pairs),
        lambda options: (options.io.state_pairs,),
    ),
    Step(states_as_io, "--state io", lambda _, options: options.io.state == "io", _no_arguments),
)
"""The passes that make a program for one run of many."""


RECOVERED = Step(passes.recover_scales, "targets with an NPU")
"""The step after which the ops of programs without scales have some."""


def npu_steps(npu: Device) -> tuple[Step, ...]:
    """Returns the passes before the placement on an NPU."""
    family = npu.name.split("-")[0]
    return (
        Step(passes.canonicalize_multipliers, "targets with an NPU"),
        *(Step(rewrite, f"targets with {family}") for rewrite in npu.rewrites),
    )


UNROLLED = Step(passes.clean_up_unrolled, "loops that are unrolled for an NPU")
"""The step after a loop was unrolled."""


def run_steps(
    steps: Iterable[Step], graph: Graph, options: CompileOptions, watch: passes.Watch | None = None
) -> Graph:
    """Runs steps in order, and verifies the graph after each one."""
    verify_graph(graph, "import")
    for step in steps:
        graph = step.apply(graph, options, watch)
    return graph


def all_steps() -> Iterator[Step]:
    """Yields the steps of all programs in order. NPUs of a family share theirs."""
    yield from (*integer_steps(), CONSTANTS, *STATE_STEPS)
    before = {(step.name, step.when): step for npu in NPUS.values() for step in npu_steps(npu)}
    yield from (RECOVERED, *before.values(), UNROLLED)


def describe_passes() -> list[dict[str, str]]:
    """Returns every step as a table row."""
    return [{"pass": step.name, "when": step.when, "summary": step.sentence} for step in all_steps()]

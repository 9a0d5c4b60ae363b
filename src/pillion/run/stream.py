# SPDX-License-Identifier: Apache-2.0
"""Runs a program repeatedly, with states that persist between runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from pillion.emitters.c.manifest import read_manifest
from pillion.host_io.progress import show_progress, stage
from pillion.ir.types import Array
from pillion.run.executor import (
    DEFAULTS,
    HOST,
    REFERENCE,
    Executor,
    Outputs,
    Runnable,
    RunOptions,
    Samples,
    require_runnable,
)
from pillion.run.executor_list import find_executor
from pillion.run.frame_buffer import FrameBuffer
from pillion.run.host_executor import files_for_host, input_bytes, start_host_model
from pillion.run.input_checks import check_fit, fit_to_graph
from pillion.run.project_folder import outputs_from_bytes, temporary_project


class StreamSession:
    """A program's runs over time, each from the states of the previous one. The first run starts with reset
    states.

    A program compiled with `stream` takes the new frames of a hop in each step. Its answer is empty until a
    window is full, and while a run waits for more frames.

    On this computer and in the reference, each step costs one run. Emulated boards and other runtimes replay
    all steps since the reset: pass many steps to `run` at once there."""

    def __init__(self, program: Runnable, on: str = REFERENCE, options: RunOptions = DEFAULTS) -> None:
        executor = find_executor(on)
        require_runnable(executor, program)
        streaming = program.graph.streaming
        self._frames = FrameBuffer(program.graph, streaming) if streaming and program.graph.states else None
        self._graph, self._on = self._frames.graph_of_call if self._frames else program.graph, on
        self._session = _open_session(program, executor, dataclasses.replace(options, stream=True))

    def step(self, *inputs: Any) -> Outputs:
        """Runs one step, and returns its outputs as numpy arrays."""
        return self.run([inputs])[0]

    def run(self, steps: Iterable[Sequence[Any]]) -> list[Outputs]:
        """Runs consecutive steps, an array per input for each, and returns the outputs of each."""
        samples = [fit_to_graph(self._graph, inputs) for inputs in steps]
        for sample in samples:
            check_fit(self._graph, sample)
        return self._run(samples) if self._frames is None else self._run_hops(self._frames, samples)

    def _run_hops(self, frames: FrameBuffer, steps: Samples) -> list[Outputs]:
        """Returns an answer, or an empty one, for each step."""
        taken = [frames.take(inputs) for inputs in steps]
        answers = iter(self._run([inputs for inputs, _ in taken if inputs is not None]))
        results = [(next(answers) if inputs is not None else (), means) for inputs, means in taken]
        return [outputs if means else () for outputs, means in results]

    def _run(self, samples: Samples) -> list[Outputs]:
        if not samples:
            return []
        with show_progress(), stage(f"running {len(samples)} steps on {self._on}"):
            return self._session.run(samples)

    def reset(self) -> None:
        """Resets the states to their values before the first run."""
        self._session.reset()
        if self._frames is not None:
            self._frames.reset()

    def close(self) -> None:
        """Ends the program's process, which otherwise ends with this object."""
        self._session.close()

    def __enter__(self) -> StreamSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_session(
    program: Runnable, executor: Executor, options: RunOptions
) -> _ReferenceSession | _HostSession | _ReplaySession:
    if executor.name == REFERENCE:
        return _ReferenceSession(program)
    return (
        _HostSession(program, options)
        if executor.name == HOST
        else _ReplaySession(program, executor, options)
    )


class _ReferenceSession:
    """The reference, with its states."""

    def __init__(self, program: Runnable) -> None:
        self.graph = program.graph
        self.states = self.graph.initial

    def run(self, samples: Samples) -> list[Outputs]:
        results = []
        for sample in samples:
            outputs, self.states = self.graph.reference_step(self.states, *sample)
            results.append(outputs)
        return results

    def reset(self) -> None:
        self.states = self.graph.initial

    def close(self) -> None:
        pass


class _HostSession:
    """The generated C in a process that keeps the states."""

    def __init__(self, program: Runnable, options: RunOptions) -> None:
        self.held = ExitStack()
        folder = self.held.enter_context(temporary_project(files_for_host(program, options)))
        self.manifest = read_manifest(folder)
        self.model = self.held.enter_context(start_host_model(folder, self.manifest, options))

    def run(self, samples: Samples) -> list[Outputs]:
        answers = self.model.run_many([input_bytes(sample) for sample in samples], stream=True)
        return [outputs_from_bytes(self.manifest, raw) for raw in answers]

    def reset(self) -> None:
        self.model.reset()

    def close(self) -> None:
        self.held.close()


class _ReplaySession:
    """An executor that runs streams from their start."""

    def __init__(self, program: Runnable, executor: Executor, options: RunOptions) -> None:
        self.program, self.executor, self.options = program, executor, options
        self.before: list[Sequence[Array]] = []

    def run(self, samples: Samples) -> list[Outputs]:
        all_samples = [*self.before, *samples] if self.program.graph.states else list(samples)
        results = self.executor.run(self.program, all_samples, self.options)
        self.before = all_samples
        return [result.outputs for result in results[len(all_samples) - len(samples) :]]

    def reset(self) -> None:
        self.before = []

    def close(self) -> None:
        pass

# SPDX-License-Identifier: Apache-2.0
"""`pillion.evaluate_events`: runs a program with states through recordings, and compares its answers with the
recordings' events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.data.reading_options import AS_IT_IS, EventOptions, Reading
from pillion.data.recordings import LabelledEvent, Recording, read_all, read_events, recording_files
from pillion.data.sample import element_count
from pillion.errors import PillionError
from pillion.evaluation.agreement import agreement
from pillion.evaluation.evaluate import check_limit
from pillion.evaluation.evaluation_result import Agreement, EventEvaluation, RecordingEvents
from pillion.evaluation.program_io import ProgramIo, program_io
from pillion.host_io.progress import Advance
from pillion.ir.types import DType
from pillion.program import Program
from pillion.run.executor import HOST, Outputs, RunOptions
from pillion.run.parallel_runs import check_workers, open_chunk_runner


@dataclass(frozen=True)
class _Answer:
    """An answer that something happened."""

    seconds: float
    number: int


def evaluate_events(
    program: Program | str | Path,
    recordings: str | Path,
    events: str | Path,
    *,
    within: float = 1.0,
    rate: float | None = None,
    limit: int | None = None,
    workers: int | None = None,
    native: bool = False,
    on: str = HOST,
    agree: Sequence[str] = (),
    agree_samples: int = 3,
    reading: Reading = AS_IT_IS,
    timeout: float = 60.0,
    progress: Advance | None = None,
) -> EventEvaluation:
    """Runs a program with states, or the C project in a folder, through recordings, each from a reset, and returns
    which of their events it answers.

    The first output is 0, or the number of an event. An event is found if it is answered at most `within` seconds
    after it begins; other answers are false alarms. `rate` is the number of steps a second in files that do not say
    it. `agree` names executors that run the first `agree_samples` recordings too."""
    _refuse_useless_reading(reading)
    io = program_io(program)
    runnable = Path(program) if isinstance(program, (str, Path)) else program
    _require_events(io)
    first = io.streaming.first - 1 if io.streaming is not None else 0
    check_limit(limit)
    EventOptions(within=within, rate=rate)  # raises
    found_files = recording_files(Path(recordings))
    labels = read_events(Path(events), [*found_files], reading.classes)
    files = dict(itertools.islice(found_files.items(), limit))
    count = check_workers(workers) if on == HOST else 1
    options = RunOptions(timeout, native=native, stream=True)
    rows: list[RecordingEvents] = []
    compared: list[Recording] = []
    with open_chunk_runner(runnable, on, count, options) as run:
        reading_them, seen = itertools.tee(read_all(files, io.inputs[0], reading, rate))
        answers = run([(step,) for step in recording.steps] for recording in reading_them)
        for recording, outputs in zip(seen, answers, strict=True):
            found = list(_answers_of(recording, outputs, first))
            rows.append(_matched(recording, labels[recording.name], found, within))
            compared += [recording] if agree and len(compared) < agree_samples else []
            if progress is not None:
                progress(len(rows), len(files))
    agreements = tuple(_agreement(runnable, io, compared, place, on, options) for place in agree)
    return EventEvaluation(io.model, io.target, str(recordings), on, tuple(rows), agreements)


def _refuse_useless_reading(reading: Reading) -> None:
    """Raises for options that change samples: recordings enter unchanged, step by step."""
    for name in ("labels", "label_column", "fit", "transform"):
        if getattr(reading, name) != getattr(AS_IT_IS, name):
            flag = f"--{name.replace('_', '-')}"
            raise PillionError(
                f"{flag} is for samples, not for recordings",
                rule="recordings are .wav, .npy and .raw files whose events stand in the file of --events, and enter a program step by step",
                here=f"{flag} {getattr(reading, name)}",
                help="leave it out, and prepare recordings before: the rate and range of the model's input",
            )


def _require_events(io: ProgramIo) -> None:
    """Raises unless the program answers events."""
    here = ""
    if not io.has_states:
        here = "it has no state, so its answers are those to samples: leave --events out"
    elif len(io.inputs) != 1:
        here = f"{len(io.inputs)} inputs: {', '.join(spec.name for spec in io.inputs)}"
    elif element_count(io.outputs[0].shape) != 1:
        here = f"the first output, `{io.outputs[0].name}`, is {io.outputs[0]}"
    elif io.outputs[0].dtype is DType.FLOAT32 or io.outputs[0].scale is not None:
        here = f"the first output, `{io.outputs[0].name}`, is a real number: {io.outputs[0]}"
    if here:
        raise PillionError(
            f"`{io.model}` does not answer events",
            rule="a program for recordings keeps states, takes one input, and its first output is one whole number: 0 for nothing, or that of an event",
            here=here,
            help="end the model with pillion.modules.KeywordDetector, whose first result is such a number",
        )


def _answers_of(recording: Recording, outputs: Sequence[Outputs], first: int) -> Iterator[_Answer]:
    """Yields the answers of a recording that are not 0. A step has been heard when it ends."""
    for step, (event, *_) in enumerate(outputs):
        if step >= first and (number := int(event.item())):
            yield _Answer((step + 1) * recording.seconds_per_step, number)


def _matched(
    recording: Recording, events: Sequence[LabelledEvent], answers: Sequence[_Answer], within: float
) -> RecordingEvents:
    """Gives each answer to the first event that it may be about. Another answer to an event found is a repetition."""
    delays: dict[int, float] = {}
    false_alarms, repeated = [], 0
    for answer in answers:
        about = [
            place
            for place, event in enumerate(events)
            if event.number in (None, answer.number) and 0 <= answer.seconds - event.seconds <= within
        ]
        place = next((place for place in about if place not in delays), None)
        if place is not None:
            delays[place] = answer.seconds - events[place].seconds
        elif about:
            repeated += 1
        else:
            false_alarms.append(answer.seconds)
    return RecordingEvents(
        recording=recording.name,
        seconds=len(recording.steps) * recording.seconds_per_step,
        steps=len(recording.steps),
        events=len(events),
        delays=tuple(delays.values()),
        missed=tuple(event.seconds for place, event in enumerate(events) if place not in delays),
        false_alarms=tuple(false_alarms),
        repeated=repeated,
    )


def _agreement(
    program: Program | Path,
    io: ProgramIo,
    recordings: Sequence[Recording],
    place: str,
    on: str,
    options: RunOptions,
) -> Agreement:
    """Compares all bytes that another executor answers, recording by recording."""
    runs = [[(step,) for step in recording.steps] for recording in recordings]
    found = [agreement(program, io, steps, place, on, options) for steps in runs]
    skipped = next((one.skipped for one in found if one.skipped), "")
    samples, same, different = (
        sum(getattr(one, name) for one in found) for name in ("samples", "same", "bytes_different")
    )
    return Agreement(place, samples, same, different, skipped)

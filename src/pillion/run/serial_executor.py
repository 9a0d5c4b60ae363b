# SPDX-License-Identifier: Apache-2.0
"""Runs programs on a board at the other end of a line, which holds the program already."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.boards.serial_link import (
    COUNT_OPS,
    MEASURE_STACK,
    RESET_STATE,
    BoardHello,
    BoardLink,
    open_board,
)
from pillion.boards.serial_transport import require_board_extra
from pillion.emitters.c.manifest import MANIFEST, Manifest, manifest_of
from pillion.emitters.c.serial_harness import program_hash
from pillion.errors import PillionError
from pillion.ir.verdict import Verdict
from pillion.run.executor import (
    DEFAULTS,
    BoardProfile,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    verdict_of_checks,
)
from pillion.run.host_executor import input_bytes
from pillion.run.project_folder import manifest_mismatch_error, outputs_from_bytes, split_outputs


@dataclass(frozen=True)
class SerialBoard:
    """A board at `serial:PORT`, `rtt:HOST:PORT` or `pyocd:TARGET`."""

    name: str

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether the packages that open the line are installed."""
        return verdict_of_checks("board.extra", lambda: require_board_extra("serial"))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Runs the samples on the board, which must hold this program."""
        return run_on_line(manifest_of(str(program.files[MANIFEST])), self.name, samples, options)


def run_on_line(manifest: Manifest, place: str, samples: Samples, options: RunOptions) -> list[RunResult]:
    """Runs the samples of a C project on a board. Each begins with reset states, or the first one of a stream."""
    with open_board(place) as link:
        require_same_program(manifest, link)
        return [
            _run_sample(manifest, link, b"".join(input_bytes(sample)), options, number)
            for number, sample in enumerate(samples)
        ]


def require_same_program(manifest: Manifest, link: BoardLink) -> None:
    """Raises if a board holds another program than a project's."""
    wanted, hello = program_hash(manifest), link.hello
    if hello.program_hash != wanted:
        raise PillionError(
            f"the board at {link.place} runs another program than `{manifest.model}`",
            rule=f"its program is {wanted[:12]}…",
            here=f"{hello.program_hash[:12]}… on {hello.chip}",
            help="build this project and flash it, or name the project that is on the board",
        )
    sizes = [sum(one.bytes for one in buffers) for buffers in (manifest.inputs, manifest.outputs)]
    if sizes != [hello.input_bytes, hello.output_bytes] or hello.ops != len(manifest.ops):
        raise manifest_mismatch_error(
            manifest,
            f"{sizes[0]} bytes of inputs, {sizes[1]} of outputs, {len(manifest.ops)} ops",
            f"{hello.input_bytes}, {hello.output_bytes}, {hello.ops} on the board",
        )


def _run_sample(
    manifest: Manifest, link: BoardLink, sample: bytes, options: RunOptions, number: int
) -> RunResult:
    """Returns the result of a sample. The profile belongs to the first sample; the outputs come from a run without
    it."""
    reset = RESET_STATE * (not options.stream or number == 0)
    measured = None
    if options.profile and number == 0:
        stack_bytes = link.run(sample, RESET_STATE | MEASURE_STACK, options.timeout).stack_bytes
        link.run(sample, RESET_STATE | COUNT_OPS, options.timeout)
        measured = _profile(manifest, link.hello, link.op_cycles(), stack_bytes)
    link.run(sample, reset, options.timeout)
    outputs = split_outputs(link.outputs(), manifest)
    return RunResult(outputs_from_bytes(manifest, outputs), None, measured)


def _profile(
    manifest: Manifest, hello: BoardHello, cycles: tuple[int, ...], stack_bytes: int | None
) -> BoardProfile:
    return BoardProfile(
        chip=hello.chip,
        clock_hz=hello.clock_hz,
        compiler=hello.compiler,
        flags=hello.flags,
        program_hash=hello.program_hash,
        is_emulated=hello.is_emulated,
        op_cycles=cycles,
        stack_bytes=stack_bytes,
        ops=manifest.ops,
    )

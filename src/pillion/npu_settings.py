# SPDX-License-Identifier: Apache-2.0
"""Options of the NPU's compiler: options that a chip lacks are refused, and of several settings the fastest that fits
is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pillion.chip_memory import by_speed
from pillion.compile_options import CompileOptions
from pillion.errors import PillionError
from pillion.program import Program
from pillion.targets import Target, npu_target_example


def refuse_npu_options(chip: Target, options: CompileOptions) -> None:
    """Raises if options of an NPU are used for a target without one, or are unknown to its compiler."""
    if chip.npu is not None:
        several = chip.npu.alternatives(options.npu)
        if several:
            known_ram(chip, options)
        for npu in several or (options.npu,):
            chip.with_npu_options(npu)
        return
    placement = options.placement
    demands = ["--only-npu"] * placement.only_npu + ["--prefer-npu"] * placement.prefer_npu
    used = demands + [f"--keep-on-cpu {pattern}" for pattern in placement.keep_on_cpu]
    used += [*(["--overlap"] * placement.overlap), *options.npu.flags.values()]
    if used:
        raise PillionError(
            f"`{chip.name}` has no NPU",
            rule=f"{used[0].split()[0]} goes with chips that have one",
            here=f"--target {chip.name} {' '.join(used)}",
            help=f"{npu_target_example(options.npu.flags)}, or leave {used[0].split()[0]} out",
        )


def known_ram(chip: Target, options: CompileOptions) -> int:
    """Returns the RAM that a program may use. Raises if neither the chip nor an option says it."""
    named = chip.named_memories(options.memory.chips)
    most = options.memory.limit or sum(memory.bytes for memory in by_speed(named)) or chip.sram_bytes
    if most is None:
        raise PillionError(
            f"the RAM of `{chip.name}` is not known",
            rule="--memory-mode auto takes the fastest mode that fits into the RAM of the chip",
            here=f"--memory-mode auto --target {chip.name}",
            help="--max-ram SIZE, or a memory mode by name",
        )
    return most


def fastest_that_fits(
    compilations: Iterable[Callable[[], Program]], chip: Target, options: CompileOptions
) -> Program:
    """Returns the program with the fewest estimated cycles among the programs that fit into the RAM of the chip, or
    into `--max-ram`; the smallest program if none fits."""
    most = known_ram(chip, options)
    programs, errors = [], []
    for compilation in compilations:
        try:
            programs.append(compilation())
        except PillionError as error:
            errors.append(error)
    fitting = [program for program in programs if program.sram_bytes <= most]
    if not programs:
        raise errors[0]
    return min(fitting or programs, key=lambda program: program.cycles if fitting else program.sram_bytes)

# SPDX-License-Identifier: Apache-2.0
"""Options and output of self-tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from pillion.cli import console
from pillion.cli.console import Facts
from pillion.emitters.c.selftest_source import size_of
from pillion.errors import PillionError
from pillion.host_io.atomic_files import output_suffix, suffix_of
from pillion.program import Program
from pillion.run.executor import EXECUTORCH, LITERT, REFERENCE, check_timeout
from pillion.run.executor_list import require_place, require_tools
from pillion.run.selftest_samples import SelfTestOutcome, no_selftest_error, run_selftest, samples_of


def require_selftest_format(samples: Path | None, output: Path) -> None:
    """Raises if the output's format cannot hold a self-test."""
    if samples is not None and output_suffix(output) == ".tflite":
        raise no_selftest_error(output)


def selftest_facts(program: Program, output: Path, samples: Path | None) -> Facts:
    """Returns the facts about a written self-test."""
    if samples is None:
        return {}
    if output_suffix(output) == ".pte":
        bundle = output.with_suffix(".bpte")
        return {"selftest": str(bundle), "selftest_bytes": bundle.stat().st_size}
    count = len(samples_of(program.graph, samples))
    size = size_of(program.lowered.graph, count)
    finds = "the op and the element" if size.finds_elements else "the op; elements of outputs only"
    return {"selftest": f"{count} samples, finds {finds}", "selftest_bytes": size.bytes}


def refuse_other_run_options(given: Mapping[str, object]) -> None:
    """Raises if options contradict the self-test's own samples."""
    useless = [option for option, value in given.items() if value]
    if useless:
        raise PillionError(
            "a self-test has its inputs inside, and measures nothing",
            rule="--selftest goes alone",
            here=" ".join(useless),
            help=f"leave {useless[0]} out",
        )


def run_and_print_selftest(project: Path, on: str, timeout: float, as_json: bool) -> None:
    """Runs a project's self-test and prints the result; exits with 1 on a difference."""
    check_timeout(timeout)
    require_place(on, "--on")
    if suffix_of(project) == ".pte" or on in (REFERENCE, LITERT, EXECUTORCH):
        raise PillionError(
            "only the C of a project has a self-test that Pillion runs",
            rule="the folder of a C project, on host or on a board",
            here=f"{project} on {on}",
            help="pillion run FOLDER --on host --selftest; a .bpte is run by ExecuTorch",
        )
    require_tools(on)
    outcome = run_selftest(project, on, timeout)
    console.print_facts(_outcome_facts(outcome), as_json)
    if outcome.differs:
        raise typer.Exit(1)


def _outcome_facts(outcome: SelfTestOutcome) -> Facts:
    if not outcome.differs:
        return {"on": outcome.on, "selftest": "all ops are as they shall be"}
    return {
        "on": outcome.on,
        "selftest": f"{outcome.op_name} differs",
        "sample": outcome.sample,
        "op": outcome.op,
        "result": outcome.result,
        "element": outcome.element,
    }

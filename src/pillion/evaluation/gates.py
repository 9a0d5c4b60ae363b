# SPDX-License-Identifier: Apache-2.0
"""Gates: limits on accuracy and cost, each with the wanted and the actual value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.errors import PillionError
from pillion.option_parsers import parse_bytes
from pillion.option_record import Option

if TYPE_CHECKING:
    from pillion.evaluation.evaluation_result import Evaluation, EventEvaluation
    from pillion.evaluation.program_costs import ProgramCosts

BYTE_UNITS = {"": 1, "K": 1024, "KB": 1024, "KIB": 1024, "M": 1024**2, "MB": 1024**2, "MIB": 1024**2}
COUNT_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class Gate:
    """One limit: its option, wanted and actual value, and whether it passes."""

    gate: str
    wanted: float
    found: float
    ok: bool


@dataclass(frozen=True)
class Limits:
    """The user's limits; None where unset. Numbers may be texts with units, as on the command line."""

    min_accuracy: Annotated[
        float | None, Option("Exit with 1 below this accuracy: 0.9.", "SHARE", typed=Optional[float])
    ] = None
    min_found: Annotated[
        float | None,
        Option("Exit with 1 if a smaller share of --events is found: 0.9.", "SHARE", typed=Optional[float]),
    ] = None
    max_false_alarms: Annotated[
        float | None,
        Option("Exit with 1 above so many false alarms an hour.", "COUNT", typed=Optional[float]),
    ] = None
    max_ram: Annotated[int | None, Option("Exit with 1 above this RAM: 256K.", "SIZE")] = None
    max_flash: Annotated[
        int | None, Option("Exit with 1 above this size of code and constants: 1M.", "SIZE")
    ] = None
    max_instructions: Annotated[
        int | None, Option("Exit with 1 above this count on the emulated core: 20M.", "COUNT")
    ] = None

    def __post_init__(self) -> None:
        self.__dict__.update(
            max_ram=None if self.max_ram is None else parse_bytes(self.max_ram),
            max_flash=None if self.max_flash is None else parse_bytes(self.max_flash, "--max-flash "),
            max_instructions=parse_count("--max-instructions", self.max_instructions),
        )
        for name, share in (("--min-accuracy", self.min_accuracy), ("--min-found", self.min_found)):
            if share is not None and not 0 <= share <= 1:
                raise PillionError(
                    f"{name} {share:g} cannot be reached",
                    rule="a share from 0 to 1",
                    here=f"{share:g}",
                    help=f"{name} 0.9 is 90 %",
                )
        if self.max_false_alarms is not None and not self.max_false_alarms >= 0:
            raise PillionError(
                f"--max-false-alarms {self.max_false_alarms:g} cannot be reached",
                rule="false alarms an hour, 0 or more",
                here=f"{self.max_false_alarms:g}",
                help="--max-false-alarms 0.5 is one in two hours",
            )

    def check(self, metrics: Sequence[str] | None, of_events: bool = False) -> None:
        """Raises before any run if something has a limit that is not measured."""
        wrong = ("--min-accuracy",) if of_events else ("--min-found", "--max-false-alarms")
        asked = [name for name in wrong if getattr(self, name[2:].replace("-", "_")) is not None]
        if asked:
            raise PillionError(
                f"{asked[0]} has nothing to judge",
                rule="events are judged by --min-found and --max-false-alarms, samples by --min-accuracy",
                here="with --events" if of_events else "without --events",
                help="--min-found 0.9"
                if of_events
                else "--events events.csv says what happens in the recordings",
            )
        if self.min_accuracy is not None and metrics is not None and "top1" not in metrics:
            raise _missing_accuracy_error(f"--metric {' --metric '.join(metrics)}")

    def require_costs_alone(self, *needs_data: object) -> None:
        """Raises without data if anything but costs is asked for, or no cost has a limit."""
        costs = (self.max_ram, self.max_flash, self.max_instructions)
        answers = (self.min_accuracy, self.min_found, self.max_false_alarms)
        if any(needs_data) or any(one is not None for one in answers) or costs == (None, None, None):
            raise PillionError(
                "there is no data to evaluate",
                rule="answers are measured on data; --max-ram, --max-flash and --max-instructions alone need none",
                here="no --data",
                help="-d test.npz, a folder for each class, or file.py:function",
            )

    def judge(self, evaluation: Evaluation | EventEvaluation | None, costs: ProgramCosts) -> Iterator[Gate]:
        """Yields the gates, passed or not."""
        if self.min_found is not None:
            found = _measured(
                evaluation, "found_share", "--min-found", "an event at least in the table of --events"
            )
            yield Gate("--min-found", self.min_found, found, found >= self.min_found)
        if self.max_false_alarms is not None:
            alarms = _measured(
                evaluation, "false_alarms_per_hour", "--max-false-alarms", "a recording of a step at least"
            )
            yield Gate("--max-false-alarms", self.max_false_alarms, alarms, alarms <= self.max_false_alarms)
        if self.min_accuracy is not None:
            accuracy = _measured_accuracy(evaluation)
            yield Gate("--min-accuracy", self.min_accuracy, accuracy, accuracy >= self.min_accuracy)
        for name, most, cost in (
            ("--max-ram", self.max_ram, costs.ram_bytes),
            ("--max-flash", self.max_flash, costs.flash_bytes),
            ("--max-instructions", self.max_instructions, costs.instructions),
        ):
            if most is not None:
                assert cost is not None, "what has a limit was measured"
                yield Gate(name, most, cost, cost <= most)


def _measured(evaluation: Evaluation | EventEvaluation | None, metric: str, gate: str, rule: str) -> float:
    value = evaluation.metrics.get(metric) if evaluation is not None else None
    if value is None:
        raise PillionError(
            f"{gate} has nothing to judge",
            rule=rule,
            here="none",
            help="look at the table and the recordings",
        )
    return value


def _measured_accuracy(evaluation: Evaluation | EventEvaluation | None) -> float:
    if evaluation is not None and "top1" in evaluation.metrics:
        return evaluation.metrics["top1"]
    metrics = ", ".join(evaluation.metrics) if evaluation is not None else ""
    raise _missing_accuracy_error(
        f"metrics {metrics}" if metrics else "no labels" if evaluation else "no data"
    )


def _missing_accuracy_error(actual: str) -> PillionError:
    return PillionError(
        "no accuracy was measured",
        rule="--min-accuracy is the least share of right answers: --metric top1",
        here=actual,
        help="add --metric top1, with data that has a class for each sample",
    )


def parse_count(option: str, text: str | int | None) -> int | None:
    """Parses a count: 20000000, or 20M, in multiples of 1000."""
    if not isinstance(text, str):
        return text
    number = number_with_unit(text.replace("_", "").replace(",", ""), COUNT_UNITS)
    if number is None:
        raise PillionError(
            f"{option} {text} is no number",
            rule=f"a number, and perhaps one of {', '.join(filter(None, COUNT_UNITS))}",
            here=text,
            help=f"{option} 20M",
        )
    return math.floor(number)


def number_with_unit(text: str, units: Mapping[str, int]) -> float | None:
    """Returns the number in a text such as `1.5 M`; None for other units."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)", text)
    known = match and match[2].upper() in units
    return float(match[1]) * units[match[2].upper()] if match and known else None

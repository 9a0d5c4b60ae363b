# SPDX-License-Identifier: Apache-2.0
"""Output of `pillion eval` as plain data, with the confusion matrix as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pillion.cli.console import Facts, known
from pillion.evaluation.evaluation_result import Evaluation, EventEvaluation, RecordingEvents
from pillion.evaluation.gates import Gate
from pillion.evaluation.program_costs import ProgramCosts
from pillion.evaluation.program_io import ProgramIo

MOST_COLUMNS = 12
"""Largest confusion matrix shown completely; larger ones show the most frequent mistakes."""
MOST_MISTAKES = 10


def facts_of(evaluation: Evaluation, costs: ProgramCosts, gates: Sequence[Gate]) -> Facts:
    """Returns the results for the screen and for `--json`."""
    return {
        "model": evaluation.model,
        "target": evaluation.target,
        "data": evaluation.data,
        "on": evaluation.on,
        "samples": evaluation.samples,
        "seconds": round(evaluation.seconds, 3),
        "samples_per_second": round(evaluation.samples_per_second, 1),
        "processes": evaluation.workers,
        "metrics": _metric_rows(evaluation),
        **_agreement_facts(evaluation),
        **{name: value for name, value in asdict(costs).items() if value is not None},
        **known(agreement=[asdict(one) for one in evaluation.agreements]),
        **_confusion_facts(evaluation),
        **known(gates=[asdict(gate) for gate in gates]),
    }


def event_facts(evaluation: EventEvaluation, costs: ProgramCosts, gates: Sequence[Gate]) -> Facts:
    """Returns a program's answers to recordings, for the screen and for `--json`."""
    return {
        "model": evaluation.model,
        "target": evaluation.target,
        "data": evaluation.data,
        "on": evaluation.on,
        "recordings": len(evaluation.recordings),
        "seconds": round(evaluation.seconds, 3),
        "steps": sum(one.steps for one in evaluation.recordings),
        "events": evaluation.events,
        "false_alarms": evaluation.false_alarms,
        **{name: round(value, 4) for name, value in evaluation.metrics.items()},
        "each": [_recording_row(one) for one in evaluation.recordings],
        **{name: value for name, value in asdict(costs).items() if value is not None},
        **known(agreement=[asdict(one) for one in evaluation.agreements]),
        **known(gates=[asdict(gate) for gate in gates]),
    }


def cost_facts(io: ProgramIo, costs: ProgramCosts, gates: Sequence[Gate]) -> Facts:
    """Returns the costs of a program that ran on no data, for the screen and for `--json`."""
    return {
        "model": io.model,
        "target": io.target,
        **{name: value for name, value in asdict(costs).items() if value is not None},
        "gates": [asdict(gate) for gate in gates],
    }


def _recording_row(one: RecordingEvents) -> Facts:
    """Returns the row of a recording; times are in seconds."""
    return {
        "recording": one.recording,
        "seconds": round(one.seconds, 3),
        "events": one.events,
        "found": len(one.delays),
        "missed_at": _times(one.missed),
        "false_alarms_at": _times(one.false_alarms),
        "repeated": one.repeated,
    }


def _times(seconds: Sequence[float]) -> list[float]:
    return [round(value, 3) for value in seconds]


def _metric_rows(evaluation: Evaluation) -> list[Facts]:
    float_model = evaluation.float_model
    rows = []
    for name, number in evaluation.metrics.items():
        row: Facts = {"metric": name, "int8": number}
        if float_model is not None and name in float_model.metrics:
            row |= {"float": float_model.metrics[name], "difference": number - float_model.metrics[name]}
        rows.append(row)
    return rows


def _agreement_facts(evaluation: Evaluation) -> Facts:
    float_model = evaluation.float_model
    if float_model is None:
        return {}
    facts: Facts = {
        "same_answer_as_float": float_model.same_answer,
        "signal_to_noise_db": float_model.signal_to_noise_db,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _confusion_facts(evaluation: Evaluation) -> Facts:
    if evaluation.confusion is None:
        return {}
    return {"classes": list(names_of(evaluation)), "confusion": [list(row) for row in evaluation.confusion]}


def names_of(evaluation: Evaluation) -> list[str]:
    """Returns class names; classes without a name get numbers."""
    count = len(evaluation.confusion or ())
    return list(evaluation.classes) if evaluation.classes else [str(number) for number in range(count)]


def with_confusion_table(facts: Facts) -> Facts:
    """Returns the results with the confusion matrix as table rows."""
    shown = {name: value for name, value in facts.items() if name not in ("classes", "confusion")}
    if not facts["metrics"]:
        del shown["metrics"]
    if "confusion" not in facts:
        return shown
    names, counts = facts["classes"], facts["confusion"]
    if len(names) <= MOST_COLUMNS:
        return {**shown, "confusion": _confusion_rows(names, counts)}
    mistakes = [
        {"label": a, "answer": b, "samples": counts[i][j]}
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j and counts[i][j]
    ]
    mistakes.sort(key=lambda row: -row["samples"])
    return {**shown, "most frequent mistakes": mistakes[:MOST_MISTAKES] or "none"}


def _confusion_rows(names: Sequence[str], counts: Sequence[Sequence[int]]) -> list[Facts]:
    """Returns one row per label seen, with its share of right answers."""
    rows = []
    for number, (name, row) in enumerate(zip(names, counts, strict=True)):
        if sum(row):
            cells = {f"{column}": count for column, count in zip(names, row, strict=True)}
            rows.append({"label \\ answer": name, **cells, "right": row[number] / sum(row)})
    return rows

# SPDX-License-Identifier: Apache-2.0
"""A verification as plain data, for tables and JSON."""

from __future__ import annotations

from pillion.cli.console import Facts, known
from pillion.errors import PillionError
from pillion.run.verify import Difference, Verification, VerifiedRun


def facts_of(verification: Verification) -> Facts:
    """Returns a verification as plain data."""
    runs = verification.runs
    return {
        "model": verification.model,
        "target": verification.target,
        "samples": verification.samples,
        **({"steps_of_each_sample": verification.steps} if verification.steps > 1 else {}),
        "executors": [_executor_row(run, verification) for run in runs],
        "pairs": [
            {"first": p.first, "second": p.second, "bytes_different": p.bytes_different}
            for p in verification.pairs
        ],
        "verdict": verdict_sentence(verification),
        **known(differences=[_difference_facts(d) for d in verification.differences]),
    }


def verdict_sentence(verification: Verification) -> str:
    """Returns the result of a verification as one sentence."""
    ran = [run.executor for run in verification.runs if run.has_run]
    failed = [run.executor for run in verification.runs if run.failed]
    different = sum(pair.bytes_different > 0 for pair in verification.pairs)
    if failed:
        return f"{', '.join(failed)} did not finish"
    if different:
        return f"{different} of {len(verification.pairs)} pairs of executors differ"
    if len(ran) < 2:
        return f"nothing to compare: {', '.join(ran) or 'no executor'} alone has run"
    return f"all {len(ran)} executors that ran give the same bytes"


def _executor_row(run: VerifiedRun, verification: Verification) -> Facts:
    """Returns a row: the executor, and its differing bytes against each other executor."""
    of = [p for p in verification.pairs if run.executor in (p.first, p.second)]
    others = {(p.second if p.first == run.executor else p.first): p.bytes_different for p in of}
    return {
        "executor": run.executor,
        "ran": run.has_run,
        "bytes": sum(array.nbytes for outputs in run.outputs for array in outputs) if run.has_run else None,
        "different": _differing_bytes_text(others) if run.has_run else None,
        "seconds": round(run.seconds, 2) if run.has_run else None,
        "note": _skip_or_failure_note(run),
    }


def _differing_bytes_text(others: dict[str, int]) -> str:
    """Returns `0` if all agree, otherwise the differing bytes by executor."""
    different = {name: count for name, count in others.items() if count}
    return ", ".join(f"{count:,} from {name}" for name, count in different.items()) or "0"


def _skip_or_failure_note(run: VerifiedRun) -> str:
    if run.skipped:
        return f"skipped: {run.skipped.what}; {run.skipped.help}"
    return _in_one_line(run.failed) if run.failed else ""


def _in_one_line(error: PillionError) -> str:
    parts = (error.what, error.rule, error.here, error.help)
    return "failed: " + "; ".join(" ".join(part.split()) for part in parts if part)


def _difference_facts(difference: Difference) -> Facts:
    op = difference.op
    return {
        "executor": difference.executor,
        "sample": difference.sample,
        "op": op.name if op else None,
        "kind": op.kind if op else None,
        "source": op.source if op else "",
        "value": repr(difference.value),
        "overwritten": bool(op) and difference.value.name not in [v.name for v in op.results]
        if op
        else False,
        "index": list(difference.index),
        "reference": difference.wanted,
        "got": difference.got,
        "elements_different": difference.elements,
        "unfound": difference.unfound,
        "steps": [{"step": step.name, "value": step.value} for step in difference.steps],
    }


def difference_lines(found: Difference) -> str:
    """Returns a difference as lines of text."""
    op, index = found.op, list(found.index)
    if op is None:
        return (
            f"{found.executor} differs in output `{found.value.name}`{index}: reference {found.wanted}, "
            f"{found.executor} {found.got}\n  {found.unfound}"
        )
    lines = [
        f"{found.executor} differs first at {op.kind} `{op.name}`" + (f" ({op.source})" if op.source else ""),
        f"  {found.value.name}{index} of sample {found.sample}: reference {found.wanted}, {found.executor} {found.got}"
        f"; {found.elements:,} of {found.value.type.elements:,} elements differ",
    ]
    if found.value.name not in [v.name for v in op.results]:
        lines.append("  this is no result of the op: it is overwritten there, though it is needed later")
    width = max((len(step.name) for step in found.steps), default=0)
    lines += [f"  reference: {step.name:{width}}  {step.value:,}" for step in found.steps]
    return "\n".join(lines)

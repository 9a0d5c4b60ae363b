# SPDX-License-Identifier: Apache-2.0
"""Plants random one-line faults in copies of the project and asks the tests of each part whether they notice: `make mutants`.

Existing tools (mutmut, cosmic-ray) change Python only and start or import everything anew for each fault; a third of this project is C,
and importing PyTorch takes longer than most tests. The same seed and the same text give the same faults. What was judged is kept in
`build/mutants`, so a run that was ended goes on; `--again` judges survivors once more."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import trial
from faults import Fault, in_random_order
from parts import PARTS, Part
from record import SURVIVED, entry, read_log, survivors, write_record

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
RECORD = ROOT / "benchmarks" / "mutants.json"
_tree: Path


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    parser.add_argument("--each", type=int, default=11, help="faults for each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", nargs="*", default=[p.name for p in PARTS], help="only these parts")
    parser.add_argument(
        "--again",
        action="store_true",
        help="judge survivors without a reason again, and patiently",
    )
    parser.add_argument("--json", action="store_true", help="print each judgement as a line of JSON")
    return parser.parse_args()


def own_tree(trees: Path) -> None:
    """Every worker has a copy of the project for itself."""
    global _tree
    _tree = trial.copy_of(
        trees / "baseline" / "project", trees / str(os.getpid()) / "project", compiles=False
    )


def judged(job: tuple[Fault, Part, bool]) -> dict[str, Any]:
    fault, part, patient = job
    return entry(fault, trial.judge(fault, part, _tree, trial.known_tests(part, BUILD), patient))


def jobs(parts: list[Part], each: int, seed: int) -> Iterator[list[tuple[Fault, Part]]]:
    """The faults of each part, in their order; some more than wanted, since some do not compile."""
    for part in parts:
        faults = in_random_order(ROOT, part.name, part.files(ROOT), seed)
        yield [(fault, part) for fault, _ in zip(faults, range(each + each // 8), strict=False)]


def wanted(rows: list[dict[str, Any]], each: int) -> list[dict[str, Any]]:
    """The first faults of each part that compile, as many as asked for."""
    return [row for row in rows if row["outcome"] != "stillborn"][:each]


def main() -> None:
    chosen = options()
    parts = [p for p in PARTS if p.name in chosen.parts]
    trees = BUILD / f"trees-{os.getpid()}"
    trial.warm_up()
    try:
        require_maps(parts, trees)
        known = judge_all(parts, chosen, trees)
    finally:
        shutil.rmtree(trees, ignore_errors=True)
    rows = [
        row
        for queue in jobs(list(PARTS), chosen.each, chosen.seed)
        for row in wanted([known[f.key] for f, _ in queue if f.key in known], chosen.each)
    ]
    write_record(RECORD, rows, chosen.seed)
    killed = sum(row["outcome"] != SURVIVED for row in rows)
    print(f"{killed} of {len(rows)} faults are noticed: {RECORD.relative_to(ROOT)}", file=sys.stderr)


def require_maps(parts: list[Part], trees: Path) -> None:
    """What the tests of each folder call, kept in `build/mutants`."""
    baseline = trial.copy_of(ROOT, trees / "baseline" / "project")
    for folder in dict.fromkeys(folder for part in parts for folder in part.judges):
        trial.map_tests(baseline, folder, trial.map_of(folder, BUILD))


def judge_all(parts: list[Part], chosen: argparse.Namespace, trees: Path) -> dict[str, dict[str, Any]]:
    """Judges what has not been judged; all judgements of this seed, old and new."""
    log = BUILD / f"judged-{chosen.seed}.jsonl"
    known = read_log(log)
    explained = {s["key"] for s in survivors(RECORD) if s["reason"]}
    done = {
        key
        for key, row in known.items()
        if not (chosen.again and row["outcome"] == SURVIVED and key not in explained)
    }
    queues = jobs(parts, chosen.each, chosen.seed)
    todo = [
        (*job, chosen.again)
        for turn in zip_longest(*queues)
        for job in turn
        if job is not None and job[0].key not in done
    ]
    with (
        multiprocessing.get_context("fork").Pool(chosen.workers, own_tree, (trees,)) as pool,
        log.open("a") as out,
    ):
        for row in pool.imap_unordered(judged, todo):
            known[row["key"]] = row
            out.write(json.dumps(row) + "\n")
            out.flush()
            tell(row, chosen.json)
    return read_log(log)


def tell(row: dict[str, Any], as_json: bool) -> None:
    text = f"{row['outcome']:9} {row['path']}:{row['line']}: {row['was']}  →  {row['became']}  [{row['test']}, {row['seconds']} s]"
    print(json.dumps(row) if as_json else text, flush=True)


if __name__ == "__main__":
    main()

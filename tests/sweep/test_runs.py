# SPDX-License-Identifier: Apache-2.0
"""Sweeps as a whole: what is kept, what is done again, what is found, and what is written of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from small_sweeps import FAST, INT8, Here, int8_file, plan_of

from pillion.errors import PillionError
from pillion.sweep.job_result import Failure, Figures, JobOutput, JobResult
from pillion.sweep.jobs import Job
from pillion.sweep.optuna_search import keeps_limits, run_search
from pillion.sweep.outputs import SweepOutput, write_views
from pillion.sweep.pareto import goals_of, is_on_pareto_front
from pillion.sweep.runner import Progress, Runner, SweepRow, run_all
from pillion.sweep.scatter_plot import pareto_staircase
from pillion.sweep.store import open_store
from pillion.sweep.sweep_file import MeasureOptions, SearchPlan, SweepFile
from pillion.sweep.variants import all_jobs


def swept(plan: SweepFile, folder: Path, retry: bool = False) -> tuple[list[SweepRow], Here]:
    """All variants, and the workers with what they did."""
    here = Here()
    with open_store(folder) as store, Runner(store, here.opened, Progress(), retry) as runner:  # type: ignore[arg-type]  # workers that are here
        rows = run_all(all_jobs(plan), runner)
        write_views(plan, rows, store, None)
    return rows, here


@pytest.fixture
def plan(tmp_path: Path) -> SweepFile:
    int8_file(tmp_path)
    return plan_of(tmp_path, INT8 + FAST)


def test_finished_jobs_are_not_repeated(plan: SweepFile, tmp_path: Path) -> None:
    rows, first = swept(plan, tmp_path / "out")
    again, second = swept(plan, tmp_path / "out")
    assert len(first.did) == 36
    assert second.did == []
    assert again == rows


@pytest.mark.turns(3)
def test_a_second_sweep_runs_new_jobs_alone(plan: SweepFile, tmp_path: Path) -> None:
    swept(plan, tmp_path / "out")
    larger = plan_of(tmp_path, INT8 + 'io_layout = "nchw"\n' + FAST)
    _, all_new = swept(larger, tmp_path / "out")
    assert len(all_new.did) == 36
    _, none = swept(plan, tmp_path / "out")
    assert none.did == []


def test_equal_jobs_are_done_once(tmp_path: Path) -> None:
    int8_file(tmp_path)
    model = '[[model]]\nsource = "small.tflite"\n'
    both = plan_of(
        tmp_path,
        model + model.replace("]]\n", ']]\nname = "b"\n') + '[options]\ntarget = "cortex-m3"\n' + FAST,
    )
    rows, here = swept(both, tmp_path / "out")
    assert len(here.did) == 1
    assert [row.job.model for row in rows] == ["small", "b"]
    assert rows[0].result == rows[1].result


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: file.write_text(""),
        lambda file: file.write_text("{}"),
        lambda file: file.write_text(file.read_text()[:-9]),
        lambda file: file.write_text(file.read_text().replace('"macs": ', '"macs": "x", "m": ')),
        lambda file: file.write_text(file.read_text().replace('"metrics": {}', '"metrics": {"top1": NaN}')),
        lambda file: file.write_bytes(b"\xff"),
    ],
)
def test_a_damaged_result_counts_as_none(damage: Callable[[Path], object], tmp_path: Path) -> None:
    int8_file(tmp_path)
    plan = plan_of(tmp_path, '[[model]]\nsource = "small.tflite"\n[options]\ntarget = "cortex-m3"\n' + FAST)
    rows, _ = swept(plan, tmp_path / "out")
    damage(tmp_path / "out" / "jobs" / rows[0].job.key / "result.json")
    again, here = swept(plan, tmp_path / "out")
    assert here.did == [rows[0].job.key]
    assert again[0].result.figures == rows[0].result.figures


def test_refusals_are_kept_and_accidents_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    int8_file(tmp_path)
    text = '[[model]]\nsource = "small.tflite"\n[options]\ntarget = "cortex-m3"\nonly_npu = [true, false]\n'
    plan = plan_of(tmp_path, text + FAST)
    rows, _ = swept(plan, tmp_path / "out")
    assert [row.result.failure is None for row in rows] == [False, True]
    assert swept(plan, tmp_path / "out")[1].did == []
    assert swept(plan, tmp_path / "out", retry=True)[1].did == [rows[0].job.key]
    accident = JobOutput(JobResult(failure=Failure("a", "b", "c", "d", is_lasting=False)))
    with open_store(tmp_path / "out") as store:
        store.keep(rows[1].job, accident)
    assert swept(plan, tmp_path / "out")[1].did == [rows[1].job.key]


def test_a_folder_of_others_is_left_alone(plan: SweepFile, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("mine", "file"):
        with pytest.raises(PillionError, match="is not the folder of a sweep"):
            swept(plan, tmp_path / name)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_two_sweeps_cannot_write_one_folder(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "out"),
        pytest.raises(PillionError, match="another process"),
        open_store(tmp_path / "out"),
    ):
        pass


def test_remains_of_killed_sweeps_are_deleted(plan: SweepFile, tmp_path: Path) -> None:
    left = tmp_path / "out" / "jobs" / ".new-abc"
    with open_store(tmp_path / "out"):
        left.mkdir()
        (left / "half").write_text("x")
    with open_store(tmp_path / "out"):
        assert not left.exists()


def test_table_and_picture(plan: SweepFile, tmp_path: Path) -> None:
    rows, _ = swept(plan, tmp_path / "out")
    with (tmp_path / "out" / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["variant"] for row in table] == [str(number) for number in range(1, 37)]
    for row, cells in zip(rows, table, strict=True):
        assert row.result.figures is not None
        assert int(cells["ram_bytes"]) == row.result.figures.ram_bytes
        assert (tmp_path / "out" / cells["folder"] / "small.pte").is_file()
    facts = json.loads((tmp_path / "out" / "table.json").read_text())
    assert facts["variants"] == 36
    assert facts["failed"] == 0


TARGETS = ("cortex-m33+int8", "cortex-m55+int8")


def row(
    number: int, target: str = TARGETS[0], top1: float | None = None, model: str = "net", **figures: int
) -> SweepRow:
    usual = {"ram_bytes": 1, "arena_bytes": 1, "npu_constant_bytes": 0, "constant_bytes": 1, "macs": 1}
    metrics = {} if top1 is None else {"top1": top1}
    job = Job(model, "net.py:Net", {"arguments.number": number, "target": target}, MeasureOptions())
    return SweepRow(job, JobResult(Figures(**{**usual, **figures}), metrics))


def failed(number: int) -> SweepRow:
    return SweepRow(row(number).job, JobResult(failure=Failure("it broke", "a", "b", "c")))


def test_pareto_front_has_the_undominated_rows() -> None:
    rows = [
        row(0, top1=0.9, ram_bytes=100, flash_bytes=50, instructions=7),
        row(1, top1=0.9, ram_bytes=100, flash_bytes=50, instructions=8),  # worse than 0
        row(2, top1=0.8, ram_bytes=90, flash_bytes=50, instructions=9),
        row(3, TARGETS[1], top1=0.1, ram_bytes=999, flash_bytes=99, instructions=99),  # alone on its target
        row(4, top1=0.95, ram_bytes=900, flash_bytes=60, instructions=90),
        row(5, top1=0.9, ram_bytes=100, flash_bytes=50, instructions=7),  # as good as 0
        failed(6),
    ]
    assert is_on_pareto_front(rows, goals_of(["top1"])) == [True, False, True, True, True, True, False]


def test_errors_are_better_when_small() -> None:
    assert goals_of(["mse"])["mse"] is False
    assert goals_of(["top1"])["top1"] is True


def test_pareto_front_of_a_search_keeps_limits() -> None:
    wants = SearchPlan({"top1": True}, {"ram_bytes": 100}, {"macs": 1})
    rows = [row(0, top1=0.9, ram_bytes=101), row(1, top1=0.8, ram_bytes=100), row(2, top1=0.7), failed(3)]
    assert [keeps_limits(one.result, wants) for one in rows] == [False, True, True, False]
    assert is_on_pareto_front(rows, wants.goals, wants) == [False, True, False, False]


def test_a_staircase_goes_through_the_best() -> None:
    points = [(3.0, 1.0), (1.0, 5.0), (2.0, 4.0), (2.0, 6.0), (4.0, 9.0), (5.0, 8.0)]
    assert pareto_staircase(points, up_is_better=True) == [(1.0, 5.0), (2.0, 6.0), (4.0, 9.0)]
    assert pareto_staircase(points, up_is_better=False) == [(1.0, 5.0), (2.0, 4.0), (3.0, 1.0)]


def viewed(rows: list[SweepRow], folder: Path) -> SweepOutput:
    with open_store(folder / "out") as store:
        return write_views(SweepFile(Path("hostile & <b>.toml"), (), {}), rows, store, None)


def test_the_picture_is_whole_whatever_models_are_called(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "$\\frac{", "a" * 300, "größe\x00漢"]
    rows = [
        row(i, TARGETS[i % 2], i / 10, name, ram_bytes=10**i, instructions=5 * i + 1)
        for i, name in enumerate(names)
    ]
    view = viewed(rows, tmp_path)
    assert {"pareto.svg", "pareto.png"} <= set(view.facts["written"])
    tree = ElementTree.parse(tmp_path / "out" / "pareto.svg")
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert "script" not in tags
    assert (tmp_path / "out" / "pareto.png").read_bytes().startswith(b"\x89PNG")
    texts = " ".join(element.text or "" for element in tree.iter())
    assert "<script>alert(1)</script>" in texts
    assert "a" * 41 not in texts


def test_two_pictures_of_the_same_are_the_same(tmp_path: Path) -> None:
    rows = [row(i, ram_bytes=i + 1, instructions=9 - i) for i in range(5)]
    pictures = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        viewed(rows, tmp_path / name)
        pictures.append((tmp_path / name / "out" / "pareto.svg").read_bytes())
    assert pictures[0] == pictures[1]


def test_failures_are_told_once(tmp_path: Path) -> None:
    view = viewed([row(0), failed(1), failed(2)], tmp_path)
    assert view.facts["failed"] == 2
    assert [(f["variants"], f["first_variant"]) for f in view.facts["failures"]] == [(2, 2)]


SEARCH = """
[[model]]
source = "small.tflite"
[options]
target = ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m23", "cortex-m33", "cortex-m35p", "cortex-m55"]
optimize = ["speed", "size"]
io_dtype = ["float32", "int8"]
[search]
minimize = "constant_bytes"
at_most = { ram_bytes = 1000 }
"""


def searched(folder: Path, trials: int, text: str = SEARCH) -> tuple[list[SweepRow], Here]:
    here = Here()
    plan = plan_of(folder, text + FAST + "artefacts = []\n")
    with open_store(folder / "out") as store, Runner(store, here.opened, Progress(), False) as runner:  # type: ignore[arg-type]  # workers that are here
        return run_search(plan, trials, runner), here


@pytest.mark.turns(2)
def test_a_search_finds_the_optimum_in_fewer_runs(tmp_path: Path) -> None:
    int8_file(tmp_path)
    everything, _ = swept(plan_of(tmp_path, SEARCH + FAST), tmp_path / "all")
    least = min(one.result.value("constant_bytes") or 0 for one in everything)
    rows, here = searched(tmp_path, 30)
    assert rows[0].result.value("constant_bytes") == least
    assert len(here.did) == len(rows) < 32


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    int8_file(tmp_path)
    first, _ = searched(tmp_path, 7)
    more, here = searched(tmp_path, 12)
    assert {one.job.key for one in first} < {one.job.key for one in more}
    assert not {one.job.key for one in first} & set(here.did)
    points = json.loads((tmp_path / "out" / "search.json").read_text())["points"]
    assert len(points) == 12
    (tmp_path / "out" / "search.json").write_text("[")  # damaged: it begins anew, and results are there still
    _, afresh = searched(tmp_path, 7)
    assert afresh.did == []


def test_another_goal_is_another_search(tmp_path: Path) -> None:
    int8_file(tmp_path)
    searched(tmp_path, 4)
    searched(tmp_path, 3, SEARCH.replace("constant_bytes", "arena_bytes"))
    assert len(json.loads((tmp_path / "out" / "search.json").read_text())["points"]) == 3


def test_a_search_learns(tmp_path: Path) -> None:
    """Ranges and conditions between models: the optimizer comes near the least RAM that keeps to the limit."""
    int8_file(tmp_path)
    text = """
    [[model]]
    source = "net.py:Net"
    arguments = { width = { low = 1, high = 64 }, side = { low = 5, high = 30, step = 5 } }
    [[model]]
    source = "small.tflite"
    [options]
    target = "cortex-m33"
    [search]
    maximize = "macs"
    at_most = { ram_bytes = "4 KB" }
    """
    rows, _ = searched(tmp_path, 16, text)
    wants = plan_of(tmp_path, text).search
    assert wants is not None
    kept = [one for one in rows if keeps_limits(one.result, wants)]
    assert kept
    assert rows[: len(kept)] == kept
    assert {one.job.model for one in rows} == {"net", "small"}
    macs = [one.result.value("macs") or 0 for one in kept]
    assert macs == sorted(macs, reverse=True)
    assert macs[0] > 10_000


def test_the_search_learns_of_failures(tmp_path: Path) -> None:
    int8_file(tmp_path)
    rows, _ = searched(tmp_path, 6, SEARCH.replace("[search]", "only_npu = true\n[search]"))
    assert all(one.result.failure is not None for one in rows)

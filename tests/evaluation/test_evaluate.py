# SPDX-License-Identifier: Apache-2.0
"""`pillion.evaluate` against the reference, sample by sample, whatever the form of program and data."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lossy_nets as nets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import pillion
from pillion.compile_options import Memory
from pillion.errors import PillionError
from pillion.evaluation.gates import Limits, parse_count
from pillion.evaluation.program_costs import costs_of
from pillion.importers.torch.float_model import float_model

pytestmark = pytest.mark.torch
X = nets.samples(23, 3, 9, 7, seed=1)
Y = torch.arange(23) % 5


def answers(program: pillion.Program, x: torch.Tensor = X) -> np.ndarray:
    """The reference's outputs as real numbers, one sample after another."""
    return np.concatenate([program.run(one.numpy()[np.newaxis])[0] for one in x])


@pytest.mark.parametrize("workers", [1, 3])
def test_metrics_equal_numpy_computations(workers: int) -> None:
    program = nets.classifier()
    seen: list[tuple[int, int | None]] = []
    found = pillion.evaluate(
        program,
        (X, Y),
        ("top1", "top2"),
        workers=workers,
        progress=lambda done, total: seen.append((done, total)),
    )
    scores = answers(program)
    order = np.argsort(-scores, axis=1, kind="stable")
    assert found.metrics["top1"] == np.mean(order[:, 0] == Y.numpy())
    assert found.metrics["top2"] == np.mean((order[:, :2] == Y.numpy()[:, None]).any(1))
    assert found.samples == 23
    assert found.workers == workers
    assert found.seconds > 0
    assert seen[-1][0] == 23
    assert found.confusion is not None
    assert np.trace(np.array(found.confusion)) == round(found.metrics["top1"] * 23)
    assert pickle.loads(pickle.dumps(found)) == found


def test_data_and_programs_can_be_sent_to_other_processes() -> None:
    program, data = pickle.loads(pickle.dumps((nets.classifier(), (X.numpy(), Y.numpy()))))
    assert (
        pillion.evaluate(program, data, workers=1).metrics
        == pillion.evaluate(nets.classifier(), (X, Y)).metrics
    )


def test_loaders_and_generators_are_evaluated_as_they_come() -> None:
    wanted = pillion.evaluate(nets.classifier(), (X, Y)).metrics
    asked: list[int] = []

    def make() -> Iterator[Any]:
        for number in range(10**6):
            asked.append(number)
            yield X[number % 23], int(Y[number % 23])

    for data in (DataLoader(TensorDataset(X, Y), batch_size=4), zip(X, Y, strict=True)):
        assert pillion.evaluate(nets.classifier(), data).metrics == wanted
    assert pillion.evaluate(nets.classifier(), make(), limit=23).metrics == wanted
    assert len(asked) == 23


def test_more_samples_than_a_chunk_keep_their_order() -> None:
    """The echo's right answer is known for each of them."""
    labels = np.random.default_rng(0).integers(0, 5, 3000)
    x = np.full((3000, 5), -0.5, np.float32)
    x[np.arange(3000), labels] = 0.5
    found = pillion.evaluate(nets.echo(5), (x, labels), ("top1",), workers=2)
    assert found.metrics == {"top1": 1.0}
    assert np.array(found.confusion).trace() == 3000


def test_all_forms_of_a_program_get_the_same(tmp_path: Path) -> None:
    wanted = pillion.evaluate(nets.classifier(), (X, Y)).metrics
    folder = nets.classifier().firmware(tmp_path / "fw")
    file = nets.classifier().save(tmp_path / "net.pte")
    for program in (folder, str(folder), pillion.load(file), nets.classifier("cortex-m33")):
        assert pillion.evaluate(program, (X, Y)).metrics == wanted
    nhwc = nets.classifier(io_layout="nhwc")
    assert pillion.evaluate(nhwc, (X.permute(0, 2, 3, 1), Y)).metrics == wanted
    assert pillion.evaluate(nets.classifier(io_dtype="int8"), (X, Y)).metrics == wanted
    assert pillion.evaluate(nets.classifier(), (X, Y), on="reference").metrics == wanted


def test_programs_that_take_several_samples_at_once() -> None:
    wanted = pillion.evaluate(nets.classifier(), (X, Y), ("top1",))
    four = nets.classifier(batch=4)
    for data in ((X, Y), DataLoader(TensorDataset(X, Y), batch_size=4)):
        found = pillion.evaluate(four, data, ("top1",))
        assert found.samples == 23
        assert abs(found.metrics["top1"] - wanted.metrics["top1"]) <= 1 / 23  # its ranges differ a little


def test_the_float_model_is_evaluated_beside() -> None:
    floats = float_model(nets.Net(), X[:1])
    found = pillion.evaluate(nets.classifier(), (X, Y), ("top1",), float_model=floats)
    with torch.no_grad():
        scores = nets.Net()(X).numpy()
    beside = found.float_model
    assert beside is not None
    assert beside.metrics == {"top1": np.mean(scores.argmax(1) == Y.numpy())}
    got = answers(nets.classifier())
    assert beside.same_answer == np.mean(scores.argmax(1) == got.argmax(1))
    noise = 10 * np.log10((scores**2).sum() / ((got - scores) ** 2).sum())
    assert beside.signal_to_noise_db == pytest.approx(noise, abs=0.01)
    other = pillion.evaluate(
        nets.classifier(io_layout="nhwc"), (X.permute(0, 2, 3, 1), Y), ("top1",), float_model=floats
    )
    assert other.float_model is not None
    assert other.float_model.metrics == beside.metrics
    assert other.float_model.signal_to_noise_db == pytest.approx(beside.signal_to_noise_db, abs=0.01)


def test_without_labels_answers_are_compared() -> None:
    floats = float_model(nets.Net(), X[:1])
    found = pillion.evaluate(nets.classifier(), X, float_model=floats)
    assert found.metrics == {}
    assert found.float_model is not None
    assert found.float_model.metrics == {}
    labelled = pillion.evaluate(nets.classifier(), (X, Y), float_model=floats).float_model
    assert labelled is not None
    assert found.float_model.same_answer == labelled.same_answer
    assert found.float_model.signal_to_noise_db == pytest.approx(labelled.signal_to_noise_db, abs=0.01)
    (agreed,) = pillion.evaluate(nets.classifier(), X, agree=("reference",)).agreements
    assert agreed.bytes_different == 0
    with pytest.raises(PillionError, match="needs labels") as caught:
        pillion.evaluate(nets.classifier(), X, ("mse",), float_model=floats)
    assert "--float MODEL" in caught.value.help


def test_a_float_model_written_for_one_sample_is_not_run_on_batches() -> None:
    class One(nets.Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).view(1, 5).softmax(0)

    runs = [(x.numpy()[np.newaxis],) for x in X]
    found = [ys[0] for ys in float_model(One(), X[:1]).outputs(runs)]
    assert all(np.array_equal(y, np.ones((1, 5))) for y in found)
    batched = float_model(nets.Net(), X[:1])
    first, second = batched.outputs(runs), batched.outputs(runs)
    assert batched._takes_batches
    for (a,), (b,) in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)  # float32 in another order of operations


def test_recurrent_float_models_are_not_run_on_batches() -> None:
    """torch writes beyond the states of one sample, without a word."""

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.LSTM(5, 7, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0][:, -1]

    runs = [(np.random.default_rng(n).normal(size=(1, 3, 5)).astype(np.float32),) for n in range(40)]
    made = float_model(Recurrent(), torch.zeros(1, 3, 5))
    first, second = made.outputs(runs), made.outputs(runs)
    assert not made._takes_batches
    assert [y.tobytes() for (y,) in first] == [y.tobytes() for (y,) in second]


def test_float_models_that_remember_begin_anew_with_each_sample() -> None:
    class Sums(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.ones(1, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = self.total + x
            self.total.copy_(total)
            return total

    made = float_model(Sums(), torch.zeros(1, 3))
    runs = [(np.full((1, 3), n, np.float32),) for n in range(5)]
    for _ in range(2):
        assert [y.tolist() for (y,) in made.outputs(runs)] == [[[n + 1.0] * 3] for n in range(5)]


def test_one_metric_needs_no_list() -> None:
    one = pillion.evaluate(nets.classifier(), (X, Y), "top1")
    assert one.metrics == pillion.evaluate(nets.classifier(), (X, Y), ["top1"]).metrics


def test_executors_agree_byte_for_byte() -> None:
    found = pillion.evaluate(nets.classifier(), (X, Y), agree=("reference", "litert"), agree_samples=5)
    reference, litert = found.agreements
    assert (reference.samples, reference.same, reference.bytes_different) == (5, 5, 0)
    assert "no op runs on an NPU" in litert.skipped


def test_one_class_is_told() -> None:
    found = pillion.evaluate(nets.classifier(), (X, Y * 0))
    assert found.labels == 1
    assert "same label, 0" in found.notes[0]


def test_reconstructions_need_no_labels() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (50, 16)).astype(np.float32)
    found = pillion.evaluate(nets.echo(16), x)
    assert 0 < found.metrics["mse"] < (2 / 255) ** 2 / 6  # rounding alone is a twelfth of a step squared


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": ([], {}, "no sample"),
    "other shape": (X[:, :2], {}, "does not fit the model"),
    "label of another class": ((X, Y + 1), {}, "(?s)sample 5 of.*is no class"),
    "no labels": (X, {}, "needs labels"),
    "some labels": ([(X[0], 1), (X[1],)], {}, "some samples have labels"),
    "labels of two shapes": ([(X[0], 1), (X[1], [1])], {}, "no input of the model|different shapes"),
    "no number": ((X * float("nan"), Y), {}, "not finite"),
    "no samples wanted": ((X, Y), {"limit": 0}, "0 samples are none"),
    "no workers": ((X, Y), {"workers": 0}, "0 processes"),
    "no executor": ((X, Y), {"on": "hots"}, "on=hots is not known"),
    "no metric": ((X, Y), {"metrics": ()}, "no metric is asked for"),
    "a number for a metric": ((X, Y), {"metrics": 5}, "no metric 5"),
    "a float model of another shape": ((X, Y), {"float_model": float_model(nets.Same(), X[:1, :2])}, "another one"),
    "a float model of other outputs": ((X, Y), {"float_model": float_model(nets.Same(), X[:1])}, "another one"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_unusable_data_and_options_are_refused(name: str) -> None:
    data, options, words = WRONG[name]
    with pytest.raises(PillionError, match=words):
        pillion.evaluate(nets.classifier(), data, **options)


def test_classes_have_an_order_or_are_refused(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", X[:3].numpy())
    with pytest.raises(PillionError, match=r"(?s)2 classes, the model 5 outputs.*--classes cat,dog,…"):
        pillion.evaluate(nets.classifier(), tmp_path)


@pytest.mark.qemu
def test_costs_equal_the_linked_firmware(tmp_path: Path) -> None:
    program = nets.classifier()
    found = costs_of(program, flash=True, instructions=True)
    assert found.ram_bytes == program.memory.arena_bytes
    assert found.constant_bytes == program.lowered.constant_bytes
    assert found.flash_bytes is not None
    assert found.constant_bytes < found.flash_bytes < found.constant_bytes + 20_000
    profile = program.measure(X[:1], on="mps3-an547").profile
    assert profile is not None
    assert found.instructions == profile.instructions
    assert costs_of(program.firmware(tmp_path / "fw"), flash=True, instructions=True) == found


def test_an_npu_is_not_measured(tmp_path: Path) -> None:
    program = nets.classifier("imxrt700")
    assert program.npu_constant_bytes
    assert costs_of(program).ram_bytes == program.sram_bytes
    folder = program.firmware(tmp_path / "fw")
    assert costs_of(folder) == costs_of(program)
    for one in (program, folder):
        with pytest.raises(PillionError, match="no emulator has an NPU"):
            costs_of(one, instructions=True)


def test_gates_name_the_found_value() -> None:
    found = pillion.evaluate(nets.classifier(), (X, Y))
    costs = costs_of(nets.classifier())
    gates = list(Limits(0.999, max_ram=1).judge(found, costs))
    assert [(g.gate, g.wanted, g.ok) for g in gates] == [
        ("--min-accuracy", 0.999, False),
        ("--max-ram", 1, False),
    ]
    assert [g.found for g in gates] == [found.accuracy, costs.ram_bytes]
    exact = Limits(found.accuracy, max_ram=costs.ram_bytes).judge(found, costs)
    assert all(gate.ok for gate in exact)
    with pytest.raises(PillionError, match="no accuracy was measured"):
        list(Limits(0.5).judge(pillion.evaluate(nets.classifier(), (X, Y), ("top2",)), costs))
    with pytest.raises(PillionError, match="from 0 to 1"):
        Limits(97.0)


def test_sizes_are_typed_with_units() -> None:
    sizes: tuple[Any, ...] = (7, "7", "256K", "1.5m", "2 MB", "2MiB", None)
    assert [Limits(max_ram=t).max_ram for t in sizes] == [7, 7, 2**18, 1572864, 2**21, 2**21, None]
    assert Memory(max_ram="1.5M").limit == 1572864
    assert [parse_count("--max-instructions", t) for t in ("20M", "1_000", "2.5k")] == [
        20_000_000,
        1000,
        2500,
    ]
    for text in ("", "K", "-1", "1e9", "1X", "9" * 20):
        with pytest.raises(PillionError, match="is no size of memory"):
            Limits(max_flash=text)  # type: ignore[arg-type]  # as on the command line

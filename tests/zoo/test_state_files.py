# SPDX-License-Identifier: Apache-2.0
"""Weights as people have them: files of other tools, wrappers of checkpoints, and files that shall not be executed."""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pillion import zoo
from pillion.errors import PillionError, PillionWarning
from pillion.model_names import check_named

pytestmark = pytest.mark.torch

State = dict[str, Tensor]


def state_of(seed: int) -> State:
    return dict(zoo.build("linear_bn", seed=seed)[0].state_dict())


def write(path: Path, state: State) -> Path:
    match path.suffix:
        case ".npz":
            np.savez(path, **{key: value.numpy() for key, value in state.items()})
        case ".safetensors":
            from safetensors.torch import save_file

            save_file(state, path)
        case _:
            torch.save(state, path)
    return path


def assert_loads(path: Path, state: State) -> None:
    model, _ = zoo.build("linear_bn", seed=5)
    zoo.load_weights(model, path)
    found = model.state_dict()
    assert all(torch.equal(found[key], value.float()) for key, value in state.items() if "num_" not in key)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt", ".pth", ".PTH", ".ckpt", ".bin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_each_kind_of_file_gives_its_tensors(tmp_path: Path, suffix: str, dtype: torch.dtype) -> None:
    state = {key: value.to(dtype) for key, value in state_of(1).items() if value.is_floating_point()}
    assert_loads(write(tmp_path / f"w{suffix}", state), state)


def test_numbers_of_sixteen_bits_and_the_old_form_of_torch(tmp_path: Path) -> None:
    state = {key: value.bfloat16() for key, value in state_of(1).items() if value.is_floating_point()}
    assert_loads(write(tmp_path / "w.safetensors", state), state)
    torch.save(state, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    assert_loads(tmp_path / "w.pt", state)


def prefixed(prefix: str) -> Callable[[State], Any]:
    return lambda state: {f"{prefix}{key}": value for key, value in state.items()}


WRAPPED: dict[str, Callable[[State], Any]] = {
    "DataParallel": prefixed("module."),
    "torch.compile": prefixed("_orig_mod."),
    "both": prefixed("module._orig_mod."),
    "state_dict": lambda state: {"epoch": 3, "state_dict": state},
    "with an optimizer": lambda state: {
        "optimizer": {"state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2)}}},
        "model_state_dict": prefixed("module.")(state),
        "loss": 0.25,
    },
    "under a name of one's own": lambda state: {"best_of_all": state, "args": {"lr": 0.1}},
    "an average over models": lambda state: {"n_averaged": torch.tensor(5), **prefixed("module.")(state)},
    "arguments of a script beside it": lambda state: {"model": state, "args": argparse.Namespace(lr=0.1)},
    "a module that held it": lambda state: {"state_dict": prefixed("model.")(state), "global_step": 7},
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_are_taken_off(tmp_path: Path, name: str) -> None:
    torch.save(WRAPPED[name](state_of(2)), tmp_path / "w.pt")
    assert_loads(tmp_path / "w.pt", state_of(2))


def test_the_usual_copy_is_taken_where_there_are_two(tmp_path: Path) -> None:
    torch.save({"ema": state_of(3), "state_dict": state_of(2)}, tmp_path / "w.pt")
    with pytest.warns(PillionWarning, match="more than once: those of `state_dict` are taken, not `ema`"):
        assert_loads(tmp_path / "w.pt", state_of(2))


def test_extra_tensors_are_left_out_and_named(tmp_path: Path) -> None:
    state = prefixed("net.")(state_of(2)) | {"loss.weight": torch.ones(5)}
    torch.save({"state_dict": state}, tmp_path / "w.ckpt")
    with pytest.warns(PillionWarning, match="those of `net`; left out: loss.weight"):
        assert_loads(tmp_path / "w.ckpt", state_of(2))
    # below the prefix, nothing is left out
    torch.save({"net.extra": torch.ones(1), **state}, tmp_path / "w.pt")
    with pytest.warns(PillionWarning, match="left out"):
        assert refusal(tmp_path / "w.pt").here == "unexpected: extra"


def refusal(path: Path) -> PillionError:
    model, _ = zoo.build("linear_bn")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(PillionError) as caught:
        zoo.load_weights(model, path)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    return caught.value


def test_keys_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    state = prefixed("module.")(state_of(1))
    state["module.extra.weight"] = state.pop("module.head.bias")
    torch.save({"state_dict": state}, tmp_path / "w.pt")
    here = refusal(tmp_path / "w.pt").here
    assert here.splitlines() == ["missing: head.bias", "unexpected: extra.weight"]


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("form", ["zip", "old", "bare"])
def test_nothing_is_executed(tmp_path: Path, form: str) -> None:
    path = tmp_path / "w.pt"
    held = {"state_dict": state_of(1), "hyper": Bomb(tmp_path / "executed")}
    if form == "bare":
        path.write_bytes(pickle.dumps(held))
    else:
        torch.save(held, path, _use_new_zipfile_serialization=form == "zip")
    error = refusal(path)
    assert "never executed" in error.rule or "torch.save" in error.rule
    assert not (tmp_path / "executed").exists()


def test_pickled_modules_are_refused_with_a_way_out(tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 2), tmp_path / "whole.pt")
    error = refusal(tmp_path / "whole.pt")
    assert error.here == "it names torch.nn.modules.linear.Linear"
    assert "torch.save(model.state_dict()" in error.help
    assert error.help.count(str(tmp_path / "whole_weights.pt")) == 2


def test_other_file_kinds_are_refused_with_a_way_out(tmp_path: Path) -> None:
    scripted = torch.jit.trace(nn.Linear(3, 2), torch.zeros(1, 3))
    scripted.save(str(tmp_path / "scripted.pt"))
    error = refusal(tmp_path / "scripted.pt")
    assert "TorchScript" in error.here
    exec(error.help, {"torch": torch})
    assert torch.load(tmp_path / "scripted_weights.pt").keys() == {"weight", "bias"}
    (tmp_path / "net.pt2").touch()
    assert refusal(tmp_path / "net.pt2").help.startswith(f"-m {tmp_path / 'net.pt2'}, without --weights")
    (tmp_path / "broken.pt").write_bytes(b"hello")
    assert refusal(tmp_path / "broken.pt").here == "it does not begin as such a file does"


@pytest.mark.parametrize(("name", "words"), [("m.h5", "from_keras_model"), ("m.zip", "unpack")])
def test_other_frameworks_models_are_refused_with_a_way_out(name: str, words: str) -> None:
    with pytest.raises(PillionError, match="does not name a model") as caught:
        check_named(name)
    assert words in caught.value.help


@pytest.mark.parametrize(
    "text", ["unsigned char m[] = {{ {} }};\nunsigned int m_len = {};", "const m[]={{{},}}; // {}"]
)
def test_the_command_for_c_arrays_gives_the_file(text: str, tmp_path: Path) -> None:
    whole = bytes(range(256)) + b"TFL3"
    array = tmp_path / "the model.cc"
    array.write_text(text.format(",".join(f"0x{byte:02x}" for byte in whole), len(whole)))
    with pytest.raises(PillionError, match="does not name a model") as caught:
        check_named(str(array))
    command, last = caught.value.help.rsplit("\n", 1)
    assert last == "and compile 'the model.tflite'"
    subprocess.run(["sh", "-c", command.replace("python", sys.executable, 1)], cwd=tmp_path, check=True)
    assert (tmp_path / "the model.tflite").read_bytes() == whole


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz"])
def test_weights_that_are_named_as_a_model(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"m{suffix}", state_of(1))
    with pytest.raises(PillionError, match="does not say what the model computes") as caught:
        check_named(str(path))
    assert f"--weights {path}" in caught.value.help
    assert "torch.export.save" in caught.value.help
    with pytest.raises(PillionError, match="no file of this name"):
        check_named(str(tmp_path / f"none{suffix}"))


def archive(header: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def row(dtype: object = "F32", shape: object = (2,), place: object = (0, 8)) -> dict[str, object]:
    return {"head.bias": {"dtype": dtype, "shape": shape, "data_offsets": place}}


BROKEN = {
    "empty": b"",
    "short": b"\0\0\0",
    "a header longer than the file": archive({}, size=2**62),
    "no header": archive(b"", b"12345678"),
    "no JSON": archive(b"{,}"),
    "a list": archive([1, 2]),
    "deep": archive(b"[" * 100_000),
    "a type that is none": archive(row("F7"), bytes(8)),
    "a shape that is not the data's": archive(row(shape=(3,)), bytes(8)),
    "data outside": archive(row(place=(4, 12)), bytes(8)),
    "a negative place": archive(row(place=(-8, 0)), bytes(8)),
    "a huge shape": archive(row(shape=(2**40, 2**40)), bytes(8)),
    "a shape of words": archive(row(shape="ab"), bytes(8)),
    "a type of numbers": archive(row([1]), bytes(8)),
    "no places": archive({"head.bias": {"dtype": "F32", "shape": [2]}}, bytes(8)),
    "a row that is a number": archive({"head.bias": 3}),
    "true as a number": archive(row(shape=(True, 2)), bytes(8)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_safetensors_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "w.safetensors").write_bytes(BROKEN[name])
    assert "is not a file of weights" in str(refusal(tmp_path / "w.safetensors"))


@pytest.mark.parametrize(
    "held", [[1, 2], {"a": 1}, {}, torch.zeros(3), {"epoch": {"deep": {"er": {"x": {}}}}}]
)
def test_files_without_weights(tmp_path: Path, held: object) -> None:
    torch.save(held, tmp_path / "w.pt")
    assert "holds no weights" in str(refusal(tmp_path / "w.pt"))


def test_a_table_that_holds_itself(tmp_path: Path) -> None:
    held: dict[str, Any] = {"state_dict": {}}
    held["state_dict"]["again"] = held
    torch.save(held, tmp_path / "w.pt")
    assert "holds no weights" in str(refusal(tmp_path / "w.pt"))


def test_state_files_with_oversized_tensors_are_refused(tmp_path: Path) -> None:
    state = state_of(1)
    state["head.weight"] = torch.zeros(1).expand(2**20, 2**20)
    torch.save(state, tmp_path / "w.pt")
    assert "shape: head.weight has (1048576, 1048576), the model (8, 16)" in refusal(tmp_path / "w.pt").here


@pytest.mark.parametrize("name", ["w", "w.onnx", "w.h5"])
def test_other_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"123")
    assert (
        "weights are in an .npz, .safetensors, .pt, .pth, .ckpt or .bin file" in refusal(tmp_path / name).rule
    )


def test_sparse_and_complex_tensors_are_no_weights(tmp_path: Path) -> None:
    for made in (state_of(1)["head.weight"].to_sparse(), state_of(1)["head.weight"].to(torch.complex64)):
        torch.save(state_of(1) | {"head.weight": made}, tmp_path / "w.pt")
        assert "dtype: head.weight has" in refusal(tmp_path / "w.pt").here


def test_numbers_and_arrays_of_numpy_beside_the_weights_are_left_out(tmp_path: Path) -> None:
    """As training loops leave them: the best accuracy, say. Where the weights themselves are such, there are none."""
    state = state_of(2)
    beside = {
        "best": np.float64(0.5),
        "step": np.int64(7),
        "seen": np.arange(3),
        "names": np.array(["a", None]),
    }
    torch.save({"state_dict": state, **beside}, tmp_path / "w.pt")
    assert_loads(tmp_path / "w.pt", state)
    torch.save({**state, **beside}, tmp_path / "flat.pt")
    assert_loads(tmp_path / "flat.pt", state)
    torch.save({key: value.numpy() for key, value in state.items()}, tmp_path / "arrays.pt")
    with pytest.raises(PillionError, match="holds no weights"):
        zoo.load_weights(zoo.build("linear_bn")[0], tmp_path / "arrays.pt")


class Tied(nn.Module):
    """One tensor under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.second.weight = self.first.weight


@pytest.mark.parametrize("kept", ["first.weight", "second.weight"])
def test_a_tensor_that_a_model_has_twice_may_be_in_the_file_once(tmp_path: Path, kept: str) -> None:
    """As `safetensors.torch.save_model` writes it."""
    torch.manual_seed(0)
    made, read = Tied(), Tied()
    names = {"first.weight", "second.weight"} - {kept}
    state = {key: value for key, value in made.state_dict().items() if key not in names}
    zoo.load_weights(read, write(tmp_path / "w.safetensors", state))
    assert all(torch.equal(value, made.state_dict()[key]) for key, value in read.state_dict().items())


def test_two_tensors_for_one_are_said(tmp_path: Path) -> None:
    state = {**Tied().state_dict(), "second.weight": torch.zeros(5, 5)}
    with pytest.raises(PillionError, match=r"differing: second\.weight is first\.weight in the model\n"):
        zoo.load_weights(Tied(), write(tmp_path / "w.safetensors", state))


def test_sparse_tensors_are_called_so(tmp_path: Path) -> None:
    state = {key: value.to_sparse() if value.dim() else value for key, value in state_of(1).items()}
    with pytest.raises(PillionError, match="has sparse_coo float32"):
        zoo.load_weights(zoo.build("linear_bn")[0], write(tmp_path / "w.pt", state))

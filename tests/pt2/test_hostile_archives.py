# SPDX-License-Identifier: Apache-2.0
"""A `.pt2` of a stranger: nothing of it is executed, whatever it holds and wherever it holds it."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pickle
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pillion.errors import PillionError
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.pt2 import load_pt2
from pillion.importers.torch.pt2.archive import checked_archive, uncompressed_members

Members = dict[str, bytes]
MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
CONSTANTS, SAMPLES = "data/constants/model_constants_config.json", "data/sample_inputs/model.pt"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.offsets = nn.Conv2d(3, 4, 3), torch.arange(4.0)
        self.register_buffer("gains", torch.ones(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return (self.conv(x) * self.gains).relu().flatten(2).sum(2) + self.offsets


class Payload:
    """What is unpickled as a call that leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.fixture(scope="module")
def members() -> Members:
    """Of a good archive, below its root."""
    held = io.BytesIO()
    with quiet_torch():
        exported = torch.export.export(Net(), (torch.zeros(1, 3, 8, 8),))
        torch.export.save(exported, held)
    return {
        name.partition("/")[2]: content for name, content in uncompressed_members(held.getvalue()).items()
    }


def archive(members: Members, root: str = "net/", compression: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", compression) as made:
        for name, content in members.items():
            made.writestr(root + name, content)
    return held.getvalue()


def load(raw: bytes, folder: Path, trust: bool = False) -> Any:
    (folder / "net.pt2").write_bytes(raw)
    with quiet_torch():
        return load_pt2(folder / "net.pt2", trust_pickle=trust)


def changed(members: Members, name: str, change: Callable[[Any], None]) -> Members:
    held = json.loads(members[name])
    change(held)
    return {**members, name: json.dumps(held).encode()}


def saved(thing: object) -> bytes:
    held = io.BytesIO()
    torch.save(thing, held)
    return held.getvalue()


def first(config: Any) -> Any:
    return next(iter(config["config"].values()))


def in_sample_inputs(members: Members, trace: Path) -> Members:
    return {**members, SAMPLES: saved(((Payload(trace),), {}))}


def in_old_pickle(members: Members, trace: Path) -> Members:
    return {**members, SAMPLES: pickle.dumps(((Payload(trace),), {}))}


def in_weights(members: Members, trace: Path) -> Members:
    made = changed(members, WEIGHTS, lambda c: first(c).update(use_pickle=True, path_name="weight_9"))
    return {**made, "data/weights/weight_9": saved(Payload(trace))}


def in_old_weights(members: Members, trace: Path) -> Members:
    return {**members, "data/weights/model.pt": saved({"conv.weight": Payload(trace)})}


def in_constants(members: Members, trace: Path) -> Members:
    made = changed(members, CONSTANTS, lambda c: first(c).update(use_pickle=True, path_name="tensor_9"))
    return {**made, "data/constants/tensor_9": saved(Payload(trace))}


def in_old_constants(members: Members, trace: Path) -> Members:
    return {**members, "data/constants/model.pt": saved({"offsets": Payload(trace)})}


def in_opaque_object(members: Members, trace: Path) -> Members:
    name = "opaque_obj_0"
    made = changed(members, CONSTANTS, lambda c: first(c).update(use_pickle=True, path_name=name))
    return {**made, f"data/constants/{name}": pickle.dumps(Payload(trace))}


def in_opaque_object_elsewhere(members: Members, trace: Path) -> Members:
    name = "opaque_obj_0/../../weights/harmless"
    made = changed(members, CONSTANTS, lambda c: first(c).update(use_pickle=True, path_name=name))
    return {**made, f"data/constants/{name}": pickle.dumps(Payload(trace))}


def in_function(members: Members, trace: Path) -> Members:
    """A function that torch happens to have, called when the program runs."""

    def change(held: Any) -> None:
        node = copy.deepcopy(held["graph_module"]["graph"]["nodes"][0])
        argument = {"name": "command", "arg": {"as_string": f"touch {trace}"}, "kind": 1}
        node.update(target="torch.os.system", inputs=[argument], outputs=[], name="called")
        held["graph_module"]["graph"]["nodes"].insert(0, node)

    return changed(members, MODEL, change)


def in_size(members: Members, trace: Path) -> Members:
    def change(held: Any) -> None:
        code = f"__import__('pathlib').Path({str(trace)!r}).touch() or 1"
        sizes = held["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        sizes[0] = {"as_expr": {"expr_str": code, "hint": None}}

    return changed(members, MODEL, change)


def in_structure(members: Members, trace: Path) -> Members:
    def change(held: Any) -> None:
        context = json.dumps({"__enum__": True, "fqn": "antigravity:x", "name": "y"})
        signature = held["graph_module"]["module_call_graph"][0]["signature"]
        signature["in_spec"] = json.dumps(
            [1, {"type": "builtins.dict", "context": context, "children_spec": []}]
        )

    return changed(members, MODEL, change)


def in_name(members: Members, trace: Path) -> Members:
    """Torch writes Python with the names of inputs."""
    code = f"x=__import__('pathlib').Path({str(trace)!r}).touch()"
    spelled = json.dumps(code)
    return {**members, MODEL: members[MODEL].replace(b'"x"', spelled.encode())}


def in_guards(members: Members, trace: Path) -> Members:
    code = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    return changed(members, MODEL, lambda held: held.update(guards_code=[code]))


def in_native_code(members: Members, trace: Path) -> Members:
    return {
        **members,
        "data/aotinductor/model/model.wrapper.so": b"\x7fELF",
        "data/aotinductor/model/x.cpp": b"x",
    }


def until_27(members: Members, trace: Path) -> Members:
    """The format that torch 2.7 wrote."""
    return {
        "version": b"8.8",
        "serialized_exported_program.json": members[MODEL],
        "serialized_state_dict.pt": saved({"conv.weight": Payload(trace)}),
        "serialized_constants.pt": saved({}),
        "serialized_example_inputs.pt": saved(()),
    }


def by_other_case(members: Members, trace: Path) -> Members:
    """Torch looks for members in whichever case comes first."""
    return {SAMPLES.upper(): saved(((Payload(trace),), {})), **members}


HOSTILE = (
    *(
        in_sample_inputs,
        in_old_pickle,
        in_weights,
        in_old_weights,
        in_constants,
        in_old_constants,
        in_opaque_object,
    ),
    *(
        in_opaque_object_elsewhere,
        in_function,
        in_size,
        in_structure,
        in_name,
        in_native_code,
        until_27,
        by_other_case,
    ),
)
FIRE = (in_sample_inputs, in_weights, in_old_weights, in_constants, in_old_constants, in_opaque_object)
"""Of which torch is known to execute the payload."""


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_nothing_is_executed(make: Callable[..., Members], members: Members, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    root = "" if make is until_27 else "net/"
    with pytest.raises(PillionError) as refusal:
        load(archive(make(members, trace), root), tmp_path)
    assert not trace.exists()
    if make not in (until_27, by_other_case, in_old_pickle):
        assert "--trust-pickle" in refusal.value.help, refusal.value


@pytest.mark.parametrize("make", FIRE, ids=lambda make: make.__name__)
def test_these_would_have_been_executed(
    make: Callable[..., Members], members: Members, tmp_path: Path
) -> None:
    """Else the test above shows nothing."""
    trace = tmp_path / "trace"
    with contextlib.suppress(PillionError):
        load(archive(make(members, trace)), tmp_path, trust=True)
    assert trace.exists()


def test_the_root_may_be_called_like_a_folder_of_torch(members: Members, tmp_path: Path) -> None:
    for root in ("data/", "models/", "package/", "a b/"):
        trace = tmp_path / "trace"
        assert load(archive(members, root), tmp_path).graph_signature.user_inputs == ("x",)
        with pytest.raises(PillionError):
            load(archive(in_opaque_object(members, trace), root), tmp_path)
        assert not trace.exists()


def test_read_programs_compute_the_same(members: Members, tmp_path: Path) -> None:
    x = torch.randn(1, 3, 8, 8)
    for raw in (archive(members), archive(in_guards(members, tmp_path / "trace"))):
        with quiet_torch():
            found = load(raw, tmp_path).module(check_guards=False)(x)
        assert torch.equal(found, Net()(x))
    assert not (tmp_path / "trace").exists()


def test_packed_and_overlapping_members_are_refused(members: Members, tmp_path: Path) -> None:
    bomb = {**members, "data/weights/weight_0": bytes(200_000_000)}
    inner = archive({"archive/data.pkl": bytes(50_000_000)}, "", zipfile.ZIP_DEFLATED)
    begin = time.process_time()
    for raw in (archive(bomb, compression=zipfile.ZIP_DEFLATED), archive({**members, SAMPLES: inner})):
        assert len(raw) < 1_000_000
        with pytest.raises(PillionError, match="not an exported program"):
            load(raw, tmp_path)
    assert time.process_time() - begin < 20


def test_tensors_larger_than_the_file_are_refused(members: Members, tmp_path: Path) -> None:
    for sizes in ([2**40], [-1], [2**31, 2**31]):

        def change(config: Any, sizes: list[int] = sizes) -> None:
            meta = first(config)["tensor_meta"]
            meta.update(sizes=[{"as_int": n} for n in sizes], strides=[{"as_int": 0}] * len(sizes))

        with pytest.raises(PillionError, match="elements"):
            load(archive(changed(members, WEIGHTS, change)), tmp_path)


ODD = (
    "../../up",
    "/abs",
    "net/../x",
    "\\w",
    "C:\\x",
    "a" * 60_000,
    "",
    "models/",
    "models/../models/other.json",
    "data/weights/🧨",
)


@pytest.mark.parametrize("name", ODD, ids=lambda name: repr(name[:12]))
def test_members_with_odd_names(name: str, members: Members, tmp_path: Path) -> None:
    before = sorted(Path.cwd().iterdir())
    for raw in (archive({**members, name: b"{}"}), archive({f"./{name}": b"{}", **members}, "")):
        with contextlib.suppress(PillionError):
            load(raw, tmp_path)
    assert sorted(Path.cwd().iterdir()) == before
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt2"]


def damaged(rng: random.Random, raw: bytes) -> bytes:
    made = bytearray(raw)
    if rng.random() < 0.3:
        return bytes(made[: rng.randrange(len(made))])
    for _ in range(rng.choice((1, 2, 8))):
        made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made)


def noise(members: Members) -> Iterator[bytes]:
    rng = random.Random(5)
    raw = archive(members)
    yield from (damaged(rng, raw) for _ in range(120))
    for name in (MODEL, WEIGHTS, CONSTANTS, SAMPLES):
        yield from (archive({**members, name: damaged(rng, members[name])}) for _ in range(20))
    for name in members:
        yield archive({n: c for n, c in members.items() if n != name})
    yield from (b"", b"PK", b"PK\3\4", rng.randbytes(1000), archive({}), archive({"x": b""}))


def test_damaged_archives_end_in_a_program_or_one_error(members: Members, tmp_path: Path) -> None:
    answers = []
    for raw in noise(members):
        try:
            load(raw, tmp_path)
            answers.append(True)
        except PillionError:
            answers.append(False)
    assert 0 < sum(answers) < len(answers)


def test_checked_archives_are_unambiguous(members: Members) -> None:
    """One root, no name twice, nothing packed: nothing that two readers could understand differently."""
    made = uncompressed_members(checked_archive(archive({**members, "extra/x": b"y"})))
    assert {name.partition("/")[0] for name in made} == {"package"}
    assert not [name for name in made if "extra" in name]

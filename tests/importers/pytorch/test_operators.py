# SPDX-License-Identifier: Apache-2.0
"""The list of PyTorch's operators says what is so."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from pillion.cli import app
from pillion.errors import PillionError
from pillion.importers.torch.operators import pytorch_operators


def test_every_table_is_in_the_list() -> None:
    becomes = {row["operator"]: row["becomes"] for row in pytorch_operators()}
    assert becomes["conv1d"] == "conv2d"
    assert becomes["sigmoid"] == "lut"
    assert becomes["matmul"] == "decomposed into other operators"
    assert becomes["conv3d"] == "decomposed into other operators"
    assert becomes["prod"] == "decomposed into other operators"
    assert becomes["lstm"] == "scan, a loop over one step"
    assert "carried" not in becomes  # operators of our own
    assert becomes["layer_norm"] == becomes["instance_norm"] == "normalize"
    assert becomes["dropout"].startswith("nothing")


def test_the_command_prints_it() -> None:
    done = CliRunner().invoke(app, ["ops", "--pytorch", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == pytorch_operators()


def test_one_list_at_a_time() -> None:
    done = CliRunner().invoke(app, ["ops", "--pytorch", "--device", "neutron"])
    assert isinstance(done.exception, PillionError)
    assert done.exception.what == "two lists are asked for"

# SPDX-License-Identifier: Apache-2.0
"""Many samples through one process: the same answers as one at a time, and the same errors."""

from __future__ import annotations

import os

import pytest
from small_firmware import COUNT, ORDINARY_OPS, WriteFirmware, expected_outputs, needs_host

from pillion.boards.host import HostModel
from pillion.errors import PillionError

pytestmark = needs_host


def test_a_batch_is_answered_in_order(write_firmware: WriteFirmware) -> None:
    """More bytes in both directions than the pipes hold: neither side may wait for the other."""
    samples = [os.urandom(COUNT) for _ in range(20_000)]
    with HostModel(write_firmware(ORDINARY_OPS)) as model:
        assert model.run_many([]) == []
        assert model.run_many([[x] for x in samples]) == [expected_outputs(x) for x in samples]
        assert model.run([samples[0]]) == expected_outputs(samples[0])


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("__builtin_trap();", "SIGILL"),
        ("test_endless();", "did not finish"),
        ("a[-5] = 1;", "outside its arena"),
    ],
)
def test_a_fault_in_the_middle_of_a_batch_is_named(
    write_firmware: WriteFirmware, statement: str, words: str
) -> None:
    """The fifth sample begins with 77, where the model fails."""
    model = HostModel(
        write_firmware({**ORDINARY_OPS, "wild": f"if (a[0] == 77) {{ {statement} }}"}), timeout=1
    )
    ordinary, wild = bytes(COUNT), bytes([77] * COUNT)
    with pytest.raises(PillionError) as error:
        model.run_many([[ordinary]] * 4 + [[wild]] + [[ordinary]] * 3000)
    assert words in str(error.value)


def test_inputs_of_another_size_are_refused_before_any_is_run(write_firmware: WriteFirmware) -> None:
    with HostModel(write_firmware(ORDINARY_OPS)) as model:
        with pytest.raises(PillionError, match="do not fit"):
            model.run_many([[bytes(COUNT)], [bytes(COUNT + 1)]])
        assert model.run([bytes(COUNT)]) == expected_outputs(bytes(COUNT))

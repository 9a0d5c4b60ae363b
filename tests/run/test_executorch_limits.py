# SPDX-License-Identifier: Apache-2.0
"""Programs past a limit of the real kernels are refused by Pillion's kernels in the runtime, with the limit."""

from __future__ import annotations

import numpy as np
import pytest

from judge.beyond import BOTH, PROGRAMS
from judge.machine import Core
from pillion.errors import PillionError

pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")

from pillion.run.executorch import run_executorch


@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize("name", PROGRAMS)
def test_pte_refuses_shapes_that_the_library_computes_wrongly(name: str, core: Core) -> None:
    found = PROGRAMS[name]()
    program = found.program(core)
    if core in found.cores:
        with pytest.raises(PillionError) as refusal:
            run_executorch(program, [found.input])
        assert found.says in refusal.value.rule
    else:
        (got,), (wanted,) = run_executorch(program, [found.input]), found.graph.reference(found.input)
        np.testing.assert_array_equal(got, wanted)

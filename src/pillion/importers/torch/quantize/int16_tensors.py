# SPDX-License-Identifier: Apache-2.0
"""Widens single tensors to int16, for readers that support it; all others read them in int8."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch.observers import observer_of, range_of, set_range
from pillion.ir.types import DType

ROOM = 2.0
"""Range of a 16-bit tensor, relative to 8 bits: further samples may reach farther than the calibration samples."""


def widen_to_int16(prepared: GraphModule, node: Node, reads_wide: Callable[[Node], bool]) -> None:
    """Widens a result to int16, with room for other samples. Readers in `reads_wide` read 16 bits, all other readers
    int8."""
    (observed,) = node.users
    coarse = observer_of(prepared, observed)
    fine = deepcopy(coarse)
    fine.dtype, (fine.quant_min, fine.quant_max) = torch.int16, DType.INT16.bounds
    fine.may_clip = False
    set_range(fine, *(ROOM * end for end in range_of(coarse)))
    for again in [user for user in observed.users if observer_of(prepared, user) is coarse]:
        for reader in [user for user in again.users if reads_wide(user)]:
            reader.replace_input_with(again, observed)
    readers = [user for user in observed.users if user.op != "call_module" and not reads_wide(user)]
    if readers:
        with prepared.graph.inserting_after(observed):
            narrow = prepared.graph.call_module(str(observed.target), (observed,))
        narrow.meta.update(observed.meta)
        for reader in readers:
            reader.replace_input_with(observed, narrow)
    observed.target = f"{node.name}_in_16_bits"
    prepared.add_submodule(str(observed.target), fine)

# SPDX-License-Identifier: Apache-2.0
"""Arm's compiler for Ethos-U, Vela: from a segment's TFLite file to the command stream of an NPU.

settings   for which NPU, in which system, with which memory
compiler   runs it, in a process of its own
compiled   what it answers"""

from pillion.devices.ethos_u.vela.compiled import Compiled as Compiled
from pillion.devices.ethos_u.vela.compiler import available as available
from pillion.devices.ethos_u.vela.compiler import compile_segment as compile_segment
from pillion.devices.ethos_u.vela.settings import MemoryMode as MemoryMode
from pillion.devices.ethos_u.vela.settings import Settings as Settings

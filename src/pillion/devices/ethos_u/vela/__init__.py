# SPDX-License-Identifier: Apache-2.0
"""Runs Vela, Arm's compiler for Ethos-U: from a segment's TFLite file to a command stream."""

from pillion.devices.ethos_u.vela.compiled import CompiledSegment as CompiledSegment
from pillion.devices.ethos_u.vela.vela_process import compile_segment as compile_segment
from pillion.devices.ethos_u.vela.vela_process import is_vela_installed as is_vela_installed
from pillion.devices.ethos_u.vela.vela_settings import VelaSettings as VelaSettings

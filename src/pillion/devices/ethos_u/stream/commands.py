# SPDX-License-Identifier: Apache-2.0
"""The commands of the Ethos-U55, U65 and U85: their codes and bit fields.

A command is a word: its code in bits 0 to 9, the number of following words (0 or 1) in bits 14 and 15, and a parameter in the upper
half. All bits without a row here are reserved and must be 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pillion.devices.ethos_u.accelerators import Family


@dataclass(frozen=True)
class BitField:
    """A bit field of a command's parameter."""

    name: str
    low: int
    bits: int

    @property
    def mask(self) -> int:
        """The field's bits in the parameter."""
        return ((1 << self.bits) - 1) << self.low


@dataclass(frozen=True)
class Command:
    """The meaning of one code. A wide command is followed by a word of data."""

    code: int
    name: str
    fields: tuple[BitField, ...] = ()
    wide: bool = False

    @property
    def is_operation(self) -> bool:
        """Whether the command starts an operation; all other commands set a register."""
        return not self.wide and self.code < 0x100

    @property
    def reserved(self) -> int:
        """The bits of the parameter that must be 0."""
        return 0xFFFF & ~sum(field.mask for field in self.fields)

    def split(self, parameter: int) -> dict[str, int]:
        """Returns the fields of a parameter."""
        return {field.name: (parameter & field.mask) >> field.low for field in self.fields}


def _parse_bit_fields(text: str) -> tuple[BitField, ...]:
    """Parses fields such as `format:6+2`: the name, the lowest bit and the number of bits."""
    fields = []
    for word in text.split():
        name, bit_range = word.split(":")
        low, bits = bit_range.split("+")
        fields.append(BitField(name, int(low), int(bits)))
    return tuple(fields)


_VALUE = "value:0+16"
_FEATURE_MAP = (
    ("WIDTH0_M1", 0x0A, _VALUE),
    ("HEIGHT0_M1", 0x0B, _VALUE),
    ("HEIGHT1_M1", 0x0C, _VALUE),
    ("REGION", 0x0F, "value:0+3"),
)
_OPERATIONS = (
    (0x000, "STOP", _VALUE),
    (0x001, "IRQ", _VALUE),
    (0x003, "DEPTHWISE", ""),
    (0x010, "DMA_START", ""),
    (0x011, "DMA_WAIT", "value:0+4"),
    (0x012, "KERNEL_WAIT", "value:0+4"),
)
_SETTINGS = (
    (0x100, "IFM_PAD_TOP", "value:0+7"),
    (0x101, "IFM_PAD_LEFT", "value:0+7"),
    (0x102, "IFM_PAD_RIGHT", "value:0+8"),
    (0x103, "IFM_PAD_BOTTOM", "value:0+8"),
    (0x104, "IFM_DEPTH_M1", _VALUE),
    (0x109, "IFM_ZERO_POINT", _VALUE),
    (0x118, "OFM_ZERO_POINT", _VALUE),
    (0x189, "IFM2_ZERO_POINT", _VALUE),
    (0x107, "IFM_UPSCALE", "mode:0+2"),
    (0x111, "OFM_WIDTH_M1", _VALUE),
    (0x112, "OFM_HEIGHT_M1", _VALUE),
    (0x113, "OFM_DEPTH_M1", _VALUE),
    (0x120, "KERNEL_WIDTH_M1", _VALUE),
    (0x121, "KERNEL_HEIGHT_M1", _VALUE),
    (
        0x122,
        "KERNEL_STRIDE",
        "x:0+1 y:1+1 part_kernel:2+1 dilation_x:3+1 dilation_y:4+1 small_parts:5+1 x_high:6+3 y_high:9+3",
    ),
    (0x126, "ACTIVATION_MIN", _VALUE),
    (0x127, "ACTIVATION_MAX", _VALUE),
    (0x128, "WEIGHT_REGION", "value:0+3"),
    (0x129, "SCALE_REGION", "value:0+3"),
    (0x130, "DMA0_SRC_REGION", "region:0+3 internal:8+1 mode:9+2"),
    (0x131, "DMA0_DST_REGION", "region:0+3 internal:8+1 mode:9+2"),
)
_U55 = (
    (0x002, "CONV", ""),
    (0x005, "POOL", "mode:0+2"),
    (0x006, "ELEMENTWISE", "mode:0+4"),
    (0x105, "IFM_PRECISION", "type:0+4 format:6+2 scale_mode:8+2 rounding:14+2"),
    (0x10D, "IFM_IB_END", "value:0+6"),
    (0x114, "OFM_PRECISION", "type:0+3 format:6+2 global_scale:8+1 rounding:14+2"),
    (0x115, "OFM_BLK_WIDTH_M1", "value:0+6"),
    (0x116, "OFM_BLK_HEIGHT_M1", "value:0+5"),
    (0x117, "OFM_BLK_DEPTH_M1", "value:0+7"),
    (0x123, "PARALLEL_MODE", "value:0+1"),
    (0x124, "ACC_FORMAT", "width:0+2"),
    (0x125, "ACTIVATION", "function:0+5 clip:12+3"),
    (0x12D, "AB_START", "value:0+6"),
    (0x12F, "BLOCKDEP", "value:0+2"),
    (0x180, "IFM2_BROADCAST", "height:0+1 width:1+1 depth:2+1 reversed:6+1 scalar:7+1"),
    (0x181, "IFM2_SCALAR", _VALUE),
    (0x185, "IFM2_PRECISION", "type:0+4 format:6+2"),
    (0x18D, "IFM2_IB_START", "value:0+6"),
)
_BROADCAST = "height:0+1 width:1+1 depth:2+1 scalar:3+1"
_OPERAND = "type:0+4 format:6+2 storage:14+2"
_U85 = (
    (0x002, "CONV", "weights_in_second:0+1"),
    (0x005, "POOL", "mode:0+3"),
    (0x006, "ELEMENTWISE", "mode:0+6"),
    (0x007, "RESIZE", "mode:0+2"),
    (0x105, "IFM_PRECISION", _OPERAND),
    (0x108, "IFM_BROADCAST", _BROADCAST),
    (0x114, "OFM_PRECISION", "type:0+3 format:6+2 global_scale:8+1 reverse:9+2 transpose:11+3 storage:14+2"),
    (0x115, "OFM_BLK_WIDTH_M1", "value:0+7"),
    (0x116, "OFM_BLK_HEIGHT_M1", "value:0+7"),
    (0x117, "OFM_BLK_DEPTH_M1", "value:0+10"),
    (0x124, "ACC_FORMAT", "width:0+2 input:4+2 hidden:6+1 microblock:8+3"),
    (0x125, "ACTIVATION", "function:0+5 table:5+3 unclipped:12+1"),
    (0x12A, "RESIZE_X_SCALE_N_M1", "value:0+11"),
    (0x12B, "RESIZE_Y_SCALE_N_M1", "value:0+11"),
    (0x12C, "RESIZE_X_OFFSET", "value:0+12"),
    (0x12D, "RESIZE_Y_OFFSET", "value:0+12"),
    (0x12E, "WEIGHT_FORMAT", "fast:0+1 sparse:4+1"),
    (0x12F, "BLOCKDEP", "value:0+3"),
    (0x132, "DMA0_SIZE0", _VALUE),
    (0x180, "IFM2_BROADCAST", _BROADCAST),
    (0x185, "IFM2_PRECISION", _OPERAND),
)
_HIGH = "high:0+8"
"""Bits 32 to 39 of an address."""
_WIDE = (
    (0x020, "WEIGHT_BASE", _HIGH),
    (0x021, "WEIGHT_LENGTH", ""),
    (0x022, "SCALE_BASE", _HIGH),
    (0x023, "SCALE_LENGTH", ""),
    (0x030, "DMA0_SRC", _HIGH),
    (0x031, "DMA0_DST", _HIGH),
    (0x032, "DMA0_LEN", _HIGH),
)
_U55_WIDE = ((0x024, "OFM_SCALE", "shift:0+6"), (0x025, "OPA_SCALE", "shift:0+6"), (0x026, "OPB_SCALE", ""))
_U85_SCALE = "shift:0+6 early:6+5 rounding:13+3"
_U85_WIDE = (
    (0x024, "OFM_SCALE", _U85_SCALE),
    (0x025, "IFM_SCALE", _U85_SCALE),
    (0x026, "IFM2_SCALE", _U85_SCALE),
    (0x027, "OP_SCALAR", ""),
    *((0x090 + 2 * n, f"WEIGHT{n + 1}_BASE", _HIGH) for n in range(3)),
    *((0x091 + 2 * n, f"WEIGHT{n + 1}_LENGTH", "") for n in range(3)),
    (0x096, "RESIZE_X", "step:0+4 block_step:4+11"),
    (0x097, "RESIZE_Y", "step:0+4 block_step:4+11"),
)
_WIDE_MAP = tuple((f"BASE{n}", n, _HIGH) for n in range(4)) + (
    ("STRIDE_X", 4, _HIGH),
    ("STRIDE_Y", 5, _HIGH),
    ("STRIDE_C", 6, _HIGH),
)
_MAPS = (("IFM", 0x100, 0x000), ("OFM", 0x110, 0x010), ("IFM2", 0x180, 0x080))
Row = tuple[int, str, str]


def _commands(narrow: Iterable[Row], wide: Iterable[Row]) -> dict[tuple[int, bool], Command]:
    """Returns the commands of a family: the shared ones and its own."""
    rows = (
        *((*row, False) for row in (*_OPERATIONS, *_SETTINGS, *narrow)),
        *(
            (base + at, f"{m}_{name}", fields, False)
            for m, base, _ in _MAPS
            for name, at, fields in _FEATURE_MAP
        ),
        *((*row, True) for row in (*_WIDE, *wide)),
        *((base + at, f"{m}_{name}", fields, True) for m, _, base in _MAPS for name, at, fields in _WIDE_MAP),
    )
    return {
        (code, wide): Command(code, name, _parse_bit_fields(fields), wide)
        for code, name, fields, wide in rows
    }


COMMANDS: Mapping[Family, Mapping[tuple[int, bool], Command]] = {
    Family.U55: (_u55 := _commands(_U55, _U55_WIDE)),
    Family.U65: _u55,
    Family.U85: _commands(_U85, _U85_WIDE),
}
"""Every command of a family, by its code and whether it is wide."""
NAMES = {command.name for commands in COMMANDS.values() for command in commands.values()}

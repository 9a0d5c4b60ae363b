# SPDX-License-Identifier: Apache-2.0
"""Decodes commands into typed operations."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeVar

from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.command_words import CommandWord
from pillion.devices.ethos_u.stream.feature_map_checks import require_known_form
from pillion.devices.ethos_u.stream.registers import Registers
from pillion.devices.ethos_u.stream.stream_errors import not_modelled_error, require_modelled, require_valid
from pillion.ir.types import BYTES, DType

IFM_TYPES = {0: DType.UINT8, 1: DType.INT8, 5: DType.INT16, 9: DType.INT32}
OFM_TYPES = {0: DType.UINT8, 1: DType.INT8, 3: DType.INT16, 5: DType.INT32}
_CLIPS = {0: None, 2: DType.UINT8, 3: DType.INT8, 5: DType.INT16}
_TABLES = range(16, 24)
_ROUNDINGS = {
    rounding.value: rounding
    for rounding in (npu.Rounding.DOUBLE, npu.Rounding.TRUNCATE, npu.Rounding.NATURAL)
}
_OPERAND_SHIFTS = {DType.INT8: 20, DType.UINT8: 20, DType.INT16: 15}
"""Operations without a scaled result; if a scale is encoded, it is 1."""
STOP_MASK = 0xFFFF
T = TypeVar("T")


class ScaleMode(IntEnum):
    """The operand of a sum that is scaled in 32 bits."""

    BOTH = 0
    FIRST = 1
    SECOND = 2


class Decoder(Registers):
    """The current register values, and the operations that commands start with them."""

    at = 0
    """The word of the current command."""
    pools: tuple[npu.PoolKind, ...] = (npu.PoolKind.MAX, npu.PoolKind.AVERAGE, npu.PoolKind.CHANNEL_SUM)

    def operation(self, instruction: CommandWord) -> npu.Operation:
        """Returns the operation that a command starts with the current registers."""
        self.at = instruction.at
        parameter, name = instruction.parameter, instruction.command.name
        if name == "STOP":
            require_modelled(parameter == STOP_MASK, "the mask of STOP", f"{parameter:#06x}")
            return npu.Stop(self.at)
        if name in ("DMA_WAIT", "KERNEL_WAIT"):
            return npu.Wait(self.at, name == "DMA_WAIT", parameter)
        make = self.decoders.get(name)
        if make is not None:
            return make(name, parameter)
        raise not_modelled_error(f"the command {name}")

    @cached_property
    def decoders(self) -> dict[str, Callable[[str, int], npu.Operation]]:
        """The methods that decode commands, by name; they receive name and parameter."""
        return {
            "DMA_START": self._copy,
            "CONV": self._convolve,
            "DEPTHWISE": self._convolve,
            "POOL": self._decode_pool,
            "ELEMENTWISE": self._decode_elementwise,
        }

    def _known(self, kind: type[T], number: int, what: str) -> T:
        """Returns a member of an enumeration."""
        try:
            return kind(number)  # type: ignore[call-arg]  # an enumeration is called with a number
        except ValueError:
            raise not_modelled_error(what, number) from None

    def _sides(self, name: str) -> tuple[int, int, int]:
        """Returns height, width and depth of a result or a block."""
        height, width, depth = (self.value(f"{name}_{side}_M1") + 1 for side in ("HEIGHT", "WIDTH", "DEPTH"))
        return height, width, depth

    # Copies

    def _copy(self, name: str, parameter: int) -> npu.DmaCopy:
        length = self.address("DMA0_LEN")
        return npu.DmaCopy(
            self.at,
            self._copy_range("DMA0_SRC", length, internal=False),
            self._copy_range("DMA0_DST", length, internal=True),
        )

    def _copy_range(self, name: str, length: int, *, internal: bool) -> npu.Range:
        fields = self.fields(f"{name}_REGION")
        require_modelled(
            not fields["mode"], "a copy of several rows", f"{name}_REGION, mode {fields['mode']}"
        )
        require_modelled(internal or not fields["internal"], "a copy out of the internal memory")
        require_modelled(
            not fields["internal"] or fields["region"] == 3,
            "a region of the internal memory",
            fields["region"],
        )
        return npu.Range(npu.INTERNAL if fields["internal"] else fields["region"], self.address(name), length)

    # Tensors

    def _feature_map(
        self, name: str, shape: tuple[int, int, int], dtype: DType, layout: int
    ) -> npu.FeatureMap:
        tensor = npu.FeatureMap(
            region=self.value(f"{name}_REGION"),
            bases=tuple(self.address(f"{name}_BASE{n}") for n in range(4)),  # type: ignore[arg-type]  # there are four
            tile=self._tile(name),
            strides=tuple(self.stride(f"{name}_STRIDE_{axis}") for axis in "YXC"),  # type: ignore[arg-type]  # there are three
            layout=self._known(npu.TensorLayout, layout, "the layout of a tensor"),
            dtype=dtype,
            zero_point=self._zero_point(name, dtype),
            shape=shape,
            **self._orientation(name),
        )
        require_known_form(tensor)
        return tensor

    def _tile(self, name: str) -> tuple[int, int, int]:
        upper_left, upper_right, left = (
            self.value(f"{name}_{part}_M1") + 1 for part in ("HEIGHT0", "HEIGHT1", "WIDTH0")
        )
        return upper_left, upper_right, left

    def _orientation(self, name: str) -> dict[str, Any]:
        """Returns the axes in memory, if they differ from the operation's."""
        return {}

    def _zero_point(self, name: str, dtype: DType) -> int:
        value = self._number(f"{name}_ZERO_POINT", dtype)
        fits = dtype not in BYTES or dtype.bounds[0] <= value <= dtype.bounds[1]
        require_valid(fits, f"{name}_ZERO_POINT is outside {dtype.value}", str(dtype.bounds), value)
        return value

    def _number(self, name: str, dtype: DType) -> int:
        """Returns a register that holds a number of a tensor."""
        return self.value(name) if dtype is DType.UINT8 else self.signed(name)

    def _type(self, number: int, types: dict[int, DType]) -> DType:
        require_modelled(number in types, "the type of a tensor", number)
        return types[number]

    def _result(self) -> npu.FeatureMap:
        precision = self.fields("OFM_PRECISION")
        return self._feature_map(
            "OFM", self._sides("OFM"), self._type(precision["type"], OFM_TYPES), precision["format"]
        )

    def _operand(self, shape: tuple[int, int], *, scales: bool = False) -> npu.FeatureMap:
        """Returns the first operand: its depth is in a register, rows and columns follow from the
        operation."""
        precision = self.fields("IFM_PRECISION")
        mode = precision.get("scale_mode")
        require_modelled(scales or not mode, "the scaling of an operand that has no scale", mode)
        dtype = self._type(precision["type"], IFM_TYPES)
        return self._feature_map("IFM", (*shape, self.value("IFM_DEPTH_M1") + 1), dtype, precision["format"])

    # Operations on tensors

    def _decode_kernel(self) -> npu.KernelWindow:
        fields = self.fields("KERNEL_STRIDE")
        require_modelled(not fields["small_parts"], "kernels in parts of 4 x 4")
        dilation = (fields["dilation_y"] + 1, fields["dilation_x"] + 1)
        extent = (self.value("KERNEL_HEIGHT_M1"), self.value("KERNEL_WIDTH_M1"))
        fits = extent[0] % dilation[0] == 0 and extent[1] % dilation[1] == 0
        require_valid(
            fits, "the kernel does not fit its dilation", f"extents of multiples of {dilation}", extent
        )
        return npu.KernelWindow(
            height=extent[0] // dilation[0] + 1,
            width=extent[1] // dilation[1] + 1,
            stride=((fields["y"] | fields["y_high"] << 1) + 1, (fields["x"] | fields["x_high"] << 1) + 1),
            dilation=dilation,
            pads=tuple(self.value(f"IFM_PAD_{side}") for side in ("TOP", "LEFT", "BOTTOM", "RIGHT")),  # type: ignore[arg-type]  # there are four
            part_first=bool(fields["part_kernel"]),
        )

    def _window_operand(
        self, kernel: npu.KernelWindow, y: npu.FeatureMap, upscale: npu.Upscale
    ) -> npu.FeatureMap:
        """Returns the first operand of a window operation, as large as its windows reach without padding."""
        top, left, bottom, right = kernel.pads
        sizes = []
        for results, taps, stride, dilation, before, behind in (
            (y.shape[0], kernel.height, kernel.stride[0], kernel.dilation[0], top, bottom),
            (y.shape[1], kernel.width, kernel.stride[1], kernel.dilation[1], left, right),
        ):
            size = (results - 1) * stride + (taps - 1) * dilation + 1 - before - behind
            sizes.append(-(-size // 2) if upscale is not npu.Upscale.NONE else size)
        require_valid(
            min(sizes) >= 1, "windows lie in the border alone", "an operand has rows and columns", sizes
        )
        return self._operand((sizes[0], sizes[1]))

    def _scale(self) -> npu.Scale | None:
        """Returns the scale of all results, or None if each channel has its own."""
        if not self.fields("OFM_PRECISION")["global_scale"]:
            return None
        register = self.read("OFM_SCALE")
        return npu.Scale(register.data, register.fields["shift"])

    def _decode_rounding(self) -> npu.Rounding:
        number = self.fields("OFM_PRECISION")["rounding"]
        require_modelled(number in _ROUNDINGS, "a rounding", number)
        return _ROUNDINGS[number]

    def _decode_activation(self, y: npu.FeatureMap) -> npu.NpuActivation:
        activation = self.fields("ACTIVATION")
        require_modelled(activation["clip"] in _CLIPS, "a range of results", activation["clip"])
        table = activation["function"] - _TABLES.start if activation["function"] in _TABLES else None
        require_modelled(
            not activation["function"] or table is not None, "a function at the end", activation["function"]
        )
        low, high = (_CLIPS[activation["clip"]] or y.dtype).bounds
        if table is None and y.dtype is not DType.INT32:
            limits = self._number("ACTIVATION_MIN", y.dtype), self._number("ACTIVATION_MAX", y.dtype)
            require_valid(
                low <= limits[0] <= limits[1] <= high,
                "the bounds of results are not a range",
                f"{low} to {high}",
                limits,
            )
            low, high = limits
        else:
            self._require_full_range(y)
        return npu.NpuActivation(low, high, table)

    def _require_full_range(self, y: npu.FeatureMap) -> None:
        """Raises unless the bounds are the type's, limited to 16 bits: they have no effect here."""
        limits = (self.signed("ACTIVATION_MIN"), self.signed("ACTIVATION_MAX"))
        wide = (-0x8000, 0x7FFF)
        is_idle = limits in (wide, DType.INT8.bounds)
        require_modelled(is_idle, "bounds of results beside a table, or of 32 bits", limits)

    def _decode_block_size(self, x: npu.FeatureMap, kernel: npu.KernelWindow | None) -> npu.BlockSize:
        part_first = kernel is not None and kernel.part_first
        deep = 16 if part_first or x.dtype is DType.INT16 else 32
        sides = self._sides("OFM_BLK")
        self._require_units(sides, (*self.accelerator.pixels, self.accelerator.channels))
        return npu.BlockSize(*sides, self.accelerator.channels, deep)

    def _require_units(self, sides: tuple[int, int, int], unit: tuple[int, int, int]) -> None:
        """Raises unless a block is a multiple of the rows, columns and channels that the NPU computes at once."""
        fits = not any(size % step for size, step in zip(sides, unit, strict=True))
        rule = " x ".join(map(str, unit))
        require_valid(fits, "a block is no multiple of what the NPU makes at once", rule, sides)

    def _check_internal_memory(self, second: bool) -> None:
        """Checks the order of the parts of the internal memory; their sizes do not change results."""
        value = self.value
        width = self.fields("ACC_FORMAT")["width"]
        require_modelled(width in (0, 1), "sums of another width than 32 or 40 bits", width)
        order = [2, value("IFM_IB_END"), value("AB_START"), self.accelerator.banks]
        if second:
            order.insert(1, value("IFM2_IB_START"))
        is_apart = order == sorted(order)
        require_valid(
            is_apart, "the parts of the internal memory overlap", "inputs, then sums", f"banks {order}"
        )

    def _decode_window(self) -> tuple[npu.FeatureMap, npu.KernelWindow, npu.Upscale]:
        """Returns result and window of an operation over windows, and how its operand is enlarged."""
        y, kernel = self._result(), self._decode_kernel()
        upscale = self._known(npu.Upscale, self.value("IFM_UPSCALE"), "the scaling of an operand")
        self._check_internal_memory(second=False)
        return y, kernel, upscale

    def _convolve(self, name: str, parameter: int) -> npu.TensorOperation:
        y, kernel, upscale = self._decode_window()
        x, scale = self._window_operand(kernel, y, upscale), self._scale()
        kind = npu.ConvolutionKind.CONVOLUTION if name == "CONV" else npu.ConvolutionKind.DEPTHWISE
        stage = self._output_stage(y, x, kernel)
        scales = self._constant_range("SCALE", "SCALE_REGION")
        constants = (self._weight_ranges(), scales, self._weight_form())
        return npu.Convolve(self.at, x, y, scale, *stage, kind, kernel, upscale, *constants)

    def _weight_form(self) -> npu.WeightForm:
        return npu.WeightForm()

    def _weight_ranges(self) -> tuple[npu.Range, ...]:
        """Returns the ranges of the streams of weights."""
        return (self._constant_range("WEIGHT", "WEIGHT_REGION"),)

    def _constant_range(self, name: str, region: str) -> npu.Range:
        """Returns a range of weights or of scales."""
        base, length = (self.address(f"{name}_{part}") for part in ("BASE", "LENGTH"))
        return npu.Range(self.value(region), base, length)

    def _output_stage(
        self, y: npu.FeatureMap, x: npu.FeatureMap, kernel: npu.KernelWindow | None = None
    ) -> tuple[npu.Rounding, npu.NpuActivation, npu.BlockSize, int]:
        """Returns the common properties of operations on tensors: rounding, activation, block and overlap."""
        return (
            self._decode_rounding(),
            self._decode_activation(y),
            self._decode_block_size(x, kernel),
            self.value("BLOCKDEP"),
        )

    def _decode_pool(self, name: str, parameter: int) -> npu.TensorOperation:
        kind = self._known(npu.PoolKind, parameter, "a pool")
        require_modelled(kind in self.pools, "a pool", kind.value)
        y, kernel, upscale = self._decode_window()
        if (scale := self._scale()) is None:
            raise not_modelled_error("a pool with a scale for each channel")
        x = self._window_operand(kernel, y, upscale)
        stage = self._output_stage(y, x, kernel)
        divides = kind is npu.PoolKind.AVERAGE and any(kernel.pads)
        return npu.PoolOperation(self.at, x, y, scale, *stage, kind, kernel, upscale, divides)

    def _decode_elementwise(self, name: str, parameter: int) -> npu.Elementwise:
        kind = self._known(npu.ElementwiseFunction, parameter, "an elementwise operation")
        require_modelled(kind is not npu.ElementwiseFunction.LEAKY, "the leaky ReLU of the NPU itself")
        y = self._result()
        require_modelled(not self.value("IFM_UPSCALE"), "an elementwise operation on a scaled operand")
        scale = self._scale()
        if scale is None:
            require_modelled(kind in npu.WITHOUT_SCALE, "an elementwise operation without a scale")
            scale = npu.UNSCALED
        x, *operands = self._elementwise_operands(kind, y)
        return npu.Elementwise(self.at, x, y, scale, *self._output_stage(y, x), kind, *operands)

    def _elementwise_operands(self, kind: npu.ElementwiseFunction, y: npu.FeatureMap) -> tuple[Any, ...]:
        """Returns the first and the second operand, the zero point of the second one if it is a number, whether it is
        the left one, and both scales."""
        x = self._operand(y.shape[:2], scales=kind in npu.SUMS)
        operand = self._second_operand(kind, y, x)
        self._check_internal_memory(second=isinstance(operand[0], npu.FeatureMap))
        scales = self._operand_scales(x, operand[2]) if kind in npu.SUMS else (npu.UNSCALED, npu.UNSCALED)
        is_plain = (
            x.dtype is not DType.INT32
            or kind is npu.ElementwiseFunction.MUL
            or self._scale() in (None, npu.UNSCALED)
        )
        require_modelled(is_plain, "a scaled result of 32-bit operands", kind.name)
        return x, *operand, *scales

    def _operand_scales(self, x: npu.FeatureMap, is_reversed: bool) -> tuple[npu.Scale, npu.Scale]:
        """Returns the scales of the operands of a sum: of 16 bits each, or of 32 bits for one, whose zeros at the end
        the other is shifted by."""
        precision = self.fields("IFM_PRECISION")
        mode = self._known(ScaleMode, precision["scale_mode"], "the scaling of operands")
        rounding = precision["rounding"]
        require_modelled(not rounding, "another rounding of scaled operands", rounding)
        register, second = self.read("OPA_SCALE"), self.read("OPB_SCALE").data
        shift = register.fields["shift"]
        if mode is ScaleMode.BOTH:
            require_modelled(not shift, "a shift of operands that are scaled by 16 bits", shift)
            return npu.Scale(register.data, 0), npu.Scale(second, 0)
        require_modelled(not second, "a scale of the operand that is not scaled", second)
        require_modelled(x.dtype in _OPERAND_SHIFTS, "a sum of scaled 32-bit operands")
        up = _OPERAND_SHIFTS[x.dtype]
        scaled, other = npu.Scale(register.data, shift, up), npu.Scale(1 << (up - 1), 0)
        return (scaled, other) if (mode is ScaleMode.FIRST) != is_reversed else (other, scaled)

    def _second_operand(
        self, kind: npu.ElementwiseFunction, y: npu.FeatureMap, x: npu.FeatureMap
    ) -> tuple[npu.FeatureMap | int | None, int, bool]:
        """Returns the second operand, its zero point, and whether it is the left one."""
        if kind in npu.UNARY:
            return None, 0, False
        broadcast, types = (self.fields(f"IFM2_{name}") for name in ("BROADCAST", "PRECISION"))
        dtype = self._type(types["type"], IFM_TYPES)
        zero_point = self._zero_point("IFM2", dtype)
        is_reversed = bool(broadcast["reversed"])
        repeated = (broadcast["height"], broadcast["width"], broadcast["depth"])
        if broadcast["scalar"]:
            require_modelled(not any(repeated), "a number that is repeated along an axis")
            return self._number("IFM2_SCALAR", dtype), zero_point, is_reversed
        full_shape = (*y.shape[:2], x.shape[2])
        shape = tuple(1 if once else size for once, size in zip(repeated, full_shape, strict=True))
        return self._feature_map("IFM2", shape, dtype, types["format"]), zero_point, is_reversed  # type: ignore[arg-type]  # three sizes

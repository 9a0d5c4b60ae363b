# SPDX-License-Identifier: Apache-2.0
"""Decodes the commands of a U85: its registers of precision, scales, activations and blocks differ from U55's and
U65's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from functools import cached_property
from typing import Any

from pillion.devices.ethos_u.accelerators import Accelerator, Family
from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.command_words import CommandWord
from pillion.devices.ethos_u.stream.decode import IFM_TYPES, Decoder
from pillion.devices.ethos_u.stream.stream_errors import require_modelled, require_valid
from pillion.ir.types import DType

_TILES, _CHAINED, _NOWHERE = 0, 2, 3
"""Where a tensor is: in memory, in a buffer between operations, or in neither: a number, or hidden sums."""
_ORDERS = {0: (0, 1, 2), 1: (1, 0, 2), 2: (0, 2, 1), 3: (1, 2, 0), 6: (2, 0, 1), 7: (2, 1, 0)}
_ROUNDINGS = {
    0: npu.Rounding.DOUBLE,
    1: npu.Rounding.NATURAL,
    3: npu.Rounding.SYMMETRIC,
    4: npu.Rounding.TRUNCATE,
}
_MICROBLOCKS = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4))
_TABLES = {1: (DType.UINT8, DType.UINT8), 4: (DType.INT8, DType.INT8), 7: (DType.INT8, DType.INT32)}
"""The types of index and entry of each table."""
_KEEP = 1
"""The sums continue the previous operation's."""
_SPARE_TAPS = {128: 0, 256: 0, 512: 2, 1024: 6, 2048: 6}
"""The taps left out behind every ten of a depthwise kernel, if operands have 8 bits."""
_SPARE_TAPS_16 = {128: 2, 256: 2, 512: 2, 1024: 6, 2048: 6}
"""The taps left out behind every ten of a depthwise kernel, if operands have 16 bits."""
_PART_TAPS = 5
"""The taps of a part of a kernel; twice as many if weights are sparse, or operands have 16 bits."""


class U85Decoder(Decoder):
    """The decoder of a U85."""

    pools = (
        npu.PoolKind.MAX,
        npu.PoolKind.AVERAGE,
        npu.PoolKind.CHANNEL_SUM,
        npu.PoolKind.SUM,
        npu.PoolKind.MIN,
    )

    @cached_property
    def decoders(self) -> dict[str, Callable[[str, int], npu.Operation]]:
        """The methods that decode commands, by name."""
        return {**super().decoders, "RESIZE": self._decode_resize}

    # Tensors

    def _feature_map(
        self, name: str, shape: tuple[int, int, int], dtype: DType, layout: int
    ) -> npu.FeatureMap:
        storage = self.fields(f"{name}_PRECISION")["storage"]
        hidden = name == "OFM" and storage == _NOWHERE
        if storage == _CHAINED or hidden:
            columns, size = shape[2] * dtype.size_bytes, dtype.size_bytes
            place = (
                npu.NOWHERE if hidden else npu.CHAIN - self.value(f"{name}_REGION"),
                (0, 0, 0, 0),
                (shape[0], shape[0], shape[1]),
            )
            strides, zero_point = (shape[1] * columns, columns, size), self._zero_point(name, dtype)
            return npu.FeatureMap(*place, strides, npu.TensorLayout.NHWC, dtype, zero_point, shape)
        require_modelled(storage == _TILES, "the place of a tensor", f"{name}, storage {storage}")
        return super()._feature_map(name, shape, dtype, layout)

    def _orientation(self, name: str) -> dict[str, Any]:
        if name != "OFM":
            return {}
        precision = self.fields("OFM_PRECISION")
        transpose, reverse = precision["transpose"], precision["reverse"]
        require_modelled(transpose in _ORDERS, "an order of axes", transpose)
        require_modelled(not transpose or not reverse, "a result that is transposed and reversed")
        return {"order": _ORDERS[transpose], "flipped": reverse - 1 if reverse else None}

    # Every operation

    def _scale(self) -> npu.Scale | None:
        early = self.fields("OFM_SCALE")["early"]
        require_modelled(not early, "an early rounding of results", early)
        return super()._scale()

    def _decode_rounding(self) -> npu.Rounding:
        number = self.fields("OFM_SCALE")["rounding"]
        require_modelled(number in _ROUNDINGS, "a rounding", number)
        return _ROUNDINGS[number]

    def _decode_activation(self, y: npu.FeatureMap) -> npu.NpuActivation:
        fields = self.fields("ACTIVATION")
        function, dtype, table = fields["function"], y.dtype, None
        if function:
            require_modelled(function in _TABLES, "a function at the end", function)
            dtype, entry = _TABLES[function]
            require_valid(entry is y.dtype, "a table has entries of another type", entry.value, y.dtype.value)
            table = fields["table"] * entry.size_bytes
        if fields["unclipped"]:
            return npu.NpuActivation(*dtype.bounds, table)
        require_modelled(dtype is not DType.INT32, "bounds of results of 32 bits")
        limits = self._number("ACTIVATION_MIN", dtype), self._number("ACTIVATION_MAX", dtype)
        low, high = dtype.bounds
        rule = f"{low} to {high}"
        require_valid(
            low <= limits[0] <= limits[1] <= high, "the bounds of results are not a range", rule, limits
        )
        return npu.NpuActivation(*limits, table)

    def _decode_block_size(self, x: npu.FeatureMap, kernel: npu.KernelWindow | None) -> npu.BlockSize:
        rows, columns = self._microblock()
        channels = self.accelerator.macs // (8 * rows * columns)
        is_wide = x.dtype is DType.INT16
        spare = (_SPARE_TAPS_16 if is_wide else _SPARE_TAPS)[self.accelerator.macs]
        is_sparse, part_first = self._has_sparse_weights(), kernel is not None and kernel.part_first
        taps = _PART_TAPS * (1 + (is_wide or is_sparse))
        together = 8 if is_wide and part_first and not is_sparse else 0
        slice_ = self._slice(x, kernel, channels)
        return npu.BlockSize(*self._sides("OFM_BLK"), channels, slice_, spare, taps, together)

    def _has_sparse_weights(self) -> bool:
        return self.has("WEIGHT_FORMAT") and bool(self.fields("WEIGHT_FORMAT")["sparse"])

    def _microblock(self) -> tuple[int, int]:
        """Returns the rows and columns computed at once."""
        number = self.fields("ACC_FORMAT")["microblock"]
        require_modelled(number < len(_MICROBLOCKS), "what the NPU computes at once", number)
        return _MICROBLOCKS[number]

    def _slice(self, x: npu.FeatureMap, kernel: npu.KernelWindow | None, channels: int) -> int:
        if kernel is not None and kernel.part_first:
            return 16
        if self._has_sparse_weights():
            return 64 if x.dtype is DType.INT16 else 128
        small = self.accelerator.macs <= 256 and channels == 16
        return 32 if small or x.dtype is DType.INT32 else 64

    def _check_internal_memory(self, second: bool) -> None:
        """The stream of a U85 does not divide its internal memory."""

    def operation(self, instruction: CommandWord) -> npu.Operation:
        """Returns the operation that a command starts with the current registers."""
        op = super().operation(instruction)
        return self._with_sums(op) if isinstance(op, npu.TensorOperation) else op

    def _with_sums(self, op: npu.TensorOperation) -> npu.TensorOperation:
        """Returns an operation with the sums that it shares with its neighbours."""
        fields = self.fields("ACC_FORMAT")
        sums = npu.Sums(fields["input"] == _KEEP, bool(fields["hidden"]))
        are_products = isinstance(op, (npu.Convolve, npu.MatrixProduct))
        widths = (int(op.x.dtype is DType.INT16),) if are_products else (0, 1)
        is_known = fields["width"] in widths and fields["input"] in (0, _KEEP)
        require_modelled(is_known, "sums of another width or source", fields)
        is_shared = sums != npu.Sums()
        is_extreme = isinstance(op, npu.PoolOperation) and op.kind in (npu.PoolKind.MAX, npu.PoolKind.MIN)
        may = are_products or is_extreme or not is_shared
        require_modelled(may, "an operation that shares its sums", type(op).__name__)
        sides = zip(op.y.shape, astuple(op.block)[:3], strict=True)
        fits = not is_shared or all(size <= side for size, side in sides)
        require_modelled(fits, "sums of several blocks that are shared", op.y.shape)
        require_valid(
            (op.y.region == npu.NOWHERE) == sums.hidden,
            "a result without a place",
            "only hidden sums have none",
        )
        return replace(op, sums=sums)

    # Convolutions and pools

    def _weight_form(self) -> npu.WeightForm:
        fields = self.fields("WEIGHT_FORMAT")
        return npu.WeightForm(True, bool(fields["sparse"]), bool(fields["fast"]))

    def _weight_ranges(self) -> tuple[npu.Range, ...]:
        names = ["WEIGHT", *(f"WEIGHT{n}" for n in range(1, self.accelerator.weight_streams))]
        return tuple(self._stream_range(name) for name in names)

    def _stream_range(self, name: str) -> npu.Range:
        """Returns the range of a stream; one of no bytes has no address."""
        region = self.value("WEIGHT_REGION")
        if not self.read(f"{name}_LENGTH").data:
            return npu.Range(region, 0, 0)
        return self._constant_range(name, "WEIGHT_REGION")

    def _convolve(self, name: str, parameter: int) -> npu.TensorOperation:
        if name != "CONV" or not parameter:
            return super()._convolve(name, parameter)
        y, kernel, upscale = self._decode_window()
        is_plain = (kernel.height, kernel.width, kernel.stride, upscale) == (1, 1, (1, 1), npu.Upscale.NONE)
        require_modelled(is_plain, "a convolution with computed weights of several taps", kernel)
        x, types = self._window_operand(kernel, y, upscale), self.fields("IFM2_PRECISION")
        shape = (1, y.shape[2], x.shape[2])
        second = self._feature_map("IFM2", shape, self._type(types["type"], IFM_TYPES), types["format"])
        return npu.MatrixProduct(self.at, x, y, self._scale(), *self._output_stage(y, x, kernel), second)

    def _decode_pool(self, name: str, parameter: int) -> npu.TensorOperation:
        pool = super()._decode_pool(name, parameter)
        assert isinstance(pool, npu.PoolOperation)
        return replace(pool, divides=pool.kind is npu.PoolKind.AVERAGE)

    def _decode_resize(self, name: str, parameter: int) -> npu.Resize:
        y, kind = self._result(), self._known(npu.ResizeKind, parameter, "a resize")
        require_modelled(not self.value("IFM_UPSCALE"), "a resize of a scaled operand")
        x = self._operand((self.value("KERNEL_HEIGHT_M1") + 1, self.value("IFM_WIDTH0_M1") + 1))
        parts, steps, offsets = [], [], []
        for axis in "YX":
            parts.append(self.value(f"RESIZE_{axis}_SCALE_N_M1") + 1)
            step = self.read(f"RESIZE_{axis}")
            steps.append(step.fields["step"] * parts[-1] + (step.data & 0x7FF))
            offset = self.value(f"RESIZE_{axis}_OFFSET")
            offsets.append(offset - (offset >> 11 << 12))
        pairs: Any = (tuple(parts), tuple(steps), tuple(offsets))
        return npu.Resize(self.at, x, y, self._scale(), *self._output_stage(y, x), kind, *pairs)

    # Elementwise operations

    def _elementwise_operands(self, kind: npu.ElementwiseFunction, y: npu.FeatureMap) -> tuple[Any, ...]:
        first, first_point = self._elementwise_operand("IFM", y)
        scale = self._operand_scale("IFM", kind)
        if kind in npu.UNARY:
            return first, None, 0, False, scale, npu.UNSCALED
        second, second_point = self._elementwise_operand("IFM2", y)
        scales = (scale, self._operand_scale("IFM2", kind))
        if isinstance(first, int):
            return second, first, first_point, True, *scales[::-1]
        return first, second, second_point, False, *scales

    def _elementwise_operand(self, name: str, y: npu.FeatureMap) -> tuple[npu.FeatureMap | int, int]:
        """Returns an operand, or a number with its zero point."""
        precision, broadcast = self.fields(f"{name}_PRECISION"), self.fields(f"{name}_BROADCAST")
        dtype = self._type(precision["type"], IFM_TYPES)
        if broadcast.pop("scalar"):
            is_number = precision["storage"] == _NOWHERE and not any(broadcast.values())
            require_modelled(is_number, "a number that is repeated along an axis")
            number = self.read("OP_SCALAR").data
            signed = dtype is not DType.UINT8 and number >> 31
            return number - (signed << 32), self._zero_point(name, dtype)
        once = (broadcast[axis] for axis in ("height", "width", "depth"))
        shape: Any = tuple(1 if o else size for o, size in zip(once, y.shape, strict=True))
        return self._feature_map(name, shape, dtype, precision["format"]), 0

    def _operand_scale(self, name: str, kind: npu.ElementwiseFunction) -> npu.Scale:
        register = self.read(f"{name}_SCALE")
        fields = register.fields
        require_modelled(not fields["rounding"], "another rounding of scaled operands", fields["rounding"])
        scale = npu.Scale(register.data, fields["shift"], fields["early"])
        is_sum = kind in npu.SUMS
        require_modelled(
            is_sum or scale == npu.UNSCALED, "the scaling of an operand that has no scale", scale
        )
        return scale


def decoder_of(accelerator: Accelerator) -> Decoder:
    """Returns a decoder for the commands of an NPU."""
    return (U85Decoder if accelerator.family is Family.U85 else Decoder)(accelerator)

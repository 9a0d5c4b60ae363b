# SPDX-License-Identifier: Apache-2.0
"""Decodes commands into typed operations."""

from __future__ import annotations

from typing import TypeVar

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream.command_words import CommandWord
from pillion.devices.ethos_u.stream.feature_map_checks import require_known_form
from pillion.devices.ethos_u.stream.operations import (
    INTERNAL,
    BlockSize,
    ConvolutionKind,
    Convolve,
    DmaCopy,
    Elementwise,
    ElementwiseFunction,
    FeatureMap,
    KernelWindow,
    NpuActivation,
    Operation,
    PoolKind,
    PoolOperation,
    Range,
    Rounding,
    Scale,
    ScaleMode,
    Stop,
    TensorLayout,
    Upscale,
    Wait,
)
from pillion.devices.ethos_u.stream.registers import Registers
from pillion.devices.ethos_u.stream.stream_errors import invalid_stream_error, not_modelled_error
from pillion.ir.types import DType

IFM_TYPES = {0: DType.UINT8, 1: DType.INT8, 5: DType.INT16, 9: DType.INT32}
OFM_TYPES = {0: DType.UINT8, 1: DType.INT8, 3: DType.INT16, 5: DType.INT32}
_CLIPS = {0: None, 2: DType.UINT8, 3: DType.INT8, 5: DType.INT16}
_TABLES = range(16, 24)
_UNARY = {ElementwiseFunction.ABS, ElementwiseFunction.CLZ, ElementwiseFunction.LEAKY}
_SUMS = {ElementwiseFunction.ADD, ElementwiseFunction.SUB}
_UNSCALED = {
    ElementwiseFunction.MIN,
    ElementwiseFunction.MAX,
    ElementwiseFunction.CLZ,
    ElementwiseFunction.SHL,
    ElementwiseFunction.SHR,
}
"""Operations without a scaled result; if a scale is encoded, it is 1."""
STOP_MASK = 0xFFFF
T = TypeVar("T")


class Decoder:
    """The current register values, and the operations that commands start with them."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.registers = Registers(accelerator)
        self.at = 0

    def operation(self, instruction: CommandWord) -> Operation:
        """Returns the operation that a command starts with the current registers."""
        self.at = self.registers.at = instruction.at
        parameter, name = instruction.parameter, instruction.command.name
        if name == "STOP":
            if parameter != STOP_MASK:
                raise not_modelled_error("the mask of STOP", f"{parameter:#06x}")
            return Stop(self.at)
        if name in ("DMA_WAIT", "KERNEL_WAIT"):
            return Wait(self.at, name == "DMA_WAIT", parameter)
        make = {"DMA_START": self._copy, "CONV": self._convolve, "DEPTHWISE": self._convolve}.get(name)
        if make is not None:
            return make(name)
        if name == "POOL":
            return self._pool(self._known_enum_value(PoolKind, parameter, "a pool"))
        if name == "ELEMENTWISE":
            return self._elementwise(
                self._known_enum_value(ElementwiseFunction, parameter, "an elementwise operation")
            )
        raise not_modelled_error(f"the command {name}", f"word {self.at}")

    def _known_enum_value(self, kind: type[T], number: int, what: str) -> T:
        try:
            return kind(number)  # type: ignore[call-arg]  # an enumeration is called with a number
        except ValueError:
            raise not_modelled_error(what, f"{number} at word {self.at}") from None

    # Copies

    def _copy(self, _: str) -> DmaCopy:
        length = self.registers.address("DMA0_LEN")
        return DmaCopy(
            self.at,
            self._copy_range("DMA0_SRC", length, internal=False),
            self._copy_range("DMA0_DST", length, internal=True),
        )

    def _copy_range(self, name: str, length: int, *, internal: bool) -> Range:
        fields = self.registers.read(f"{name}_REGION").fields
        if fields["mode"]:
            raise not_modelled_error("a copy of several rows", f"{name}_REGION, mode {fields['mode']}")
        if fields["internal"] and not internal:
            raise not_modelled_error("a copy out of the internal memory", f"word {self.at}")
        if fields["internal"] and fields["region"] != 3:
            raise not_modelled_error("a region of the internal memory", fields["region"])
        return Range(
            INTERNAL if fields["internal"] else fields["region"], self.registers.address(name), length
        )

    # Tensors

    def _feature_map(self, name: str, shape: tuple[int, int, int], dtype: DType, layout: int) -> FeatureMap:
        tensor = FeatureMap(
            region=self.registers.value(f"{name}_REGION"),
            bases=tuple(self.registers.address(f"{name}_BASE{n}") for n in range(4)),  # type: ignore[arg-type]  # there are four
            tile=tuple(
                self.registers.value(f"{name}_{part}_M1") + 1 for part in ("HEIGHT0", "HEIGHT1", "WIDTH0")
            ),  # type: ignore[arg-type]  # there are three
            strides=tuple(self.registers.stride(f"{name}_STRIDE_{axis}") for axis in "YXC"),  # type: ignore[arg-type]  # there are three
            layout=self._known_enum_value(TensorLayout, layout, "the layout of a tensor"),
            dtype=dtype,
            zero_point=self._zero_point(name, dtype),
            shape=shape,
        )
        require_known_form(tensor, self.at)
        return tensor

    def _zero_point(self, name: str, dtype: DType) -> int:
        value = (
            self.registers.signed(f"{name}_ZERO_POINT")
            if dtype is not DType.UINT8
            else self.registers.value(f"{name}_ZERO_POINT")
        )
        if dtype in (DType.INT8, DType.UINT8) and not dtype.bounds[0] <= value <= dtype.bounds[1]:
            raise invalid_stream_error(
                f"{name}_ZERO_POINT is outside {dtype.value}", str(dtype.bounds), value
            )
        return value

    def _type(self, number: int, types: dict[int, DType]) -> DType:
        if number not in types:
            raise not_modelled_error("the type of a tensor", f"{number} at word {self.at}")
        return types[number]

    def _result(self) -> FeatureMap:
        held = self.registers.read("OFM_PRECISION").fields
        shape = (
            self.registers.value("OFM_HEIGHT_M1") + 1,
            self.registers.value("OFM_WIDTH_M1") + 1,
            self.registers.value("OFM_DEPTH_M1") + 1,
        )
        return self._feature_map("OFM", shape, self._type(held["type"], OFM_TYPES), held["format"])

    def _operand(self, shape: tuple[int, int], *, scales: bool = False) -> FeatureMap:
        """Returns the first operand: its depth is in a register, rows and columns follow from the
        operation."""
        held = self.registers.read("IFM_PRECISION").fields
        if held["scale_mode"] and not scales:
            raise not_modelled_error(
                "the scaling of an operand that has no scale", f"{held['scale_mode']} at word {self.at}"
            )
        dtype = self._type(held["type"], IFM_TYPES)
        return self._feature_map(
            "IFM", (*shape, self.registers.value("IFM_DEPTH_M1") + 1), dtype, held["format"]
        )

    # Operations on tensors

    def _kernel(self) -> KernelWindow:
        held = self.registers.read("KERNEL_STRIDE").fields
        if held["small_parts"]:
            raise not_modelled_error("kernels in parts of 4 x 4", f"word {self.at}")
        dilation = (held["dilation_y"] + 1, held["dilation_x"] + 1)
        extent = (self.registers.value("KERNEL_HEIGHT_M1"), self.registers.value("KERNEL_WIDTH_M1"))
        if extent[0] % dilation[0] or extent[1] % dilation[1]:
            raise invalid_stream_error(
                "the kernel does not fit its dilation", f"extents of multiples of {dilation}", extent
            )
        return KernelWindow(
            height=extent[0] // dilation[0] + 1,
            width=extent[1] // dilation[1] + 1,
            stride=((held["y"] | held["y_high"] << 1) + 1, (held["x"] | held["x_high"] << 1) + 1),
            dilation=dilation,
            pads=tuple(
                self.registers.value(f"IFM_PAD_{side}") for side in ("TOP", "LEFT", "BOTTOM", "RIGHT")
            ),  # type: ignore[arg-type]  # there are four
            part_first=bool(held["part_kernel"]),
        )

    def _window_operand(self, kernel: KernelWindow, y: FeatureMap, upscale: Upscale) -> FeatureMap:
        """Returns the first operand of a window operation, as large as its windows reach without padding."""
        top, left, bottom, right = kernel.pads
        sizes = []
        for results, taps, stride, dilation, before, behind in (
            (y.shape[0], kernel.height, kernel.stride[0], kernel.dilation[0], top, bottom),
            (y.shape[1], kernel.width, kernel.stride[1], kernel.dilation[1], left, right),
        ):
            size = (results - 1) * stride + (taps - 1) * dilation + 1 - before - behind
            sizes.append(-(-size // 2) if upscale is not Upscale.NONE else size)
        if min(sizes) < 1:
            raise invalid_stream_error(
                "windows lie in the border alone",
                "an operand has rows and columns",
                f"{sizes} at word {self.at}",
            )
        return self._operand((sizes[0], sizes[1]))

    def _scale(self) -> Scale | None:
        """Returns the scale of all results, or None if each channel has its own."""
        if not self.registers.read("OFM_PRECISION").fields["global_scale"]:
            return None
        held = self.registers.read("OFM_SCALE")
        return Scale(held.data, held.fields["shift"])

    def _rounding(self) -> Rounding:
        return self._known_enum_value(
            Rounding, self.registers.read("OFM_PRECISION").fields["rounding"], "a rounding"
        )

    def _activation(self, y: FeatureMap) -> NpuActivation:
        held = self.registers.read("ACTIVATION").fields
        if held["clip"] not in _CLIPS:
            raise not_modelled_error("a range of results", f"{held['clip']} at word {self.at}")
        table = held["function"] - _TABLES.start if held["function"] in _TABLES else None
        if held["function"] and table is None:
            raise not_modelled_error("a function at the end", f"{held['function']} at word {self.at}")
        low, high = (_CLIPS[held["clip"]] or y.dtype).bounds
        if table is None and y.dtype is not DType.INT32:
            bounds = (
                (
                    (self.registers.value, "ACTIVATION_MIN"),
                    (self.registers.value, "ACTIVATION_MAX"),
                )
                if y.dtype is DType.UINT8
                else ((self.registers.signed, "ACTIVATION_MIN"), (self.registers.signed, "ACTIVATION_MAX"))
            )
            asked = tuple(read(name) for read, name in bounds)
            if not low <= asked[0] <= asked[1] <= high:
                raise invalid_stream_error(
                    "the bounds of results are not a range", f"{low} to {high}", f"{asked} at word {self.at}"
                )
            low, high = asked
        else:
            self._require_full_range(y)
        return NpuActivation(low, high, table)

    def _require_full_range(self, y: FeatureMap) -> None:
        """Raises unless the bounds are those of the type, limited to 16 bits: they have no effect here."""
        asked = (self.registers.signed("ACTIVATION_MIN"), self.registers.signed("ACTIVATION_MAX"))
        wide = (-0x8000, 0x7FFF)
        if asked not in (wide, DType.INT8.bounds):
            raise not_modelled_error(
                "bounds of results beside a table, or of 32 bits", f"{asked} at word {self.at}"
            )

    def _block(self, y: FeatureMap) -> BlockSize:
        block = BlockSize(
            self.registers.value("OFM_BLK_HEIGHT_M1") + 1,
            self.registers.value("OFM_BLK_WIDTH_M1") + 1,
            self.registers.value("OFM_BLK_DEPTH_M1") + 1,
        )
        rows, columns = self.registers.accelerator.pixels
        if block.height % rows or block.width % columns or block.depth % self.registers.accelerator.channels:
            raise invalid_stream_error(
                "a block is no multiple of what the NPU makes at once",
                f"{rows} x {columns} x {self.registers.accelerator.channels}",
                f"{block} at word {self.at}",
            )
        return block

    def _check_internal_memory(self, second: bool) -> None:
        """Checks the order of the parts of the internal memory; their sizes do not change results."""
        if self.registers.value("ACC_FORMAT"):
            raise not_modelled_error(
                "sums of another width than 32 bits",
                f"{self.registers.value('ACC_FORMAT')} at word {self.at}",
            )
        order = [
            2,
            self.registers.value("IFM_IB_END"),
            self.registers.value("AB_START"),
            self.registers.accelerator.banks,
        ]
        if second:
            order.insert(1, self.registers.value("IFM2_IB_START"))
        if order != sorted(order):
            raise invalid_stream_error(
                "the parts of the internal memory overlap",
                "inputs, then sums",
                f"banks {order} at word {self.at}",
            )

    def _convolve(self, name: str) -> Convolve:
        y, kernel = self._result(), self._kernel()
        upscale = self._known_enum_value(
            Upscale, self.registers.value("IFM_UPSCALE"), "the scaling of an operand"
        )
        self._check_internal_memory(second=False)
        return Convolve(
            self.at,
            self._window_operand(kernel, y, upscale),
            y,
            self._scale(),
            self._rounding(),
            self._activation(y),
            self._block(y),
            self.registers.value("BLOCKDEP"),
            ConvolutionKind.CONVOLUTION if name == "CONV" else ConvolutionKind.DEPTHWISE,
            kernel,
            upscale,
            Range(
                self.registers.value("WEIGHT_REGION"),
                self.registers.address("WEIGHT_BASE"),
                self.registers.address("WEIGHT_LENGTH"),
            ),
            Range(
                self.registers.value("SCALE_REGION"),
                self.registers.address("SCALE_BASE"),
                self.registers.address("SCALE_LENGTH"),
            ),
        )

    def _pool(self, kind: PoolKind) -> PoolOperation:
        y, kernel = self._result(), self._kernel()
        upscale = self._known_enum_value(
            Upscale, self.registers.value("IFM_UPSCALE"), "the scaling of an operand"
        )
        self._check_internal_memory(second=False)
        if (scale := self._scale()) is None:
            raise not_modelled_error("a pool with a scale for each channel", f"word {self.at}")
        return PoolOperation(
            self.at,
            self._window_operand(kernel, y, upscale),
            y,
            scale,
            self._rounding(),
            self._activation(y),
            self._block(y),
            self.registers.value("BLOCKDEP"),
            kind,
            kernel,
            upscale,
        )

    def _elementwise(self, kind: ElementwiseFunction) -> Elementwise:
        if kind is ElementwiseFunction.LEAKY:
            raise not_modelled_error("the leaky ReLU of the NPU itself", f"word {self.at}")
        y = self._result()
        if self.registers.value("IFM_UPSCALE"):
            raise not_modelled_error("an elementwise operation on a scaled operand", f"word {self.at}")
        x = self._operand(y.shape[:2], scales=kind in _SUMS)
        mode = self._known_enum_value(
            ScaleMode, self.registers.read("IFM_PRECISION").fields["scale_mode"], "the scaling of operands"
        )
        scale = self._scale()
        if scale is None:
            if kind not in _UNSCALED:
                raise not_modelled_error("an elementwise operation without a scale", f"word {self.at}")
            scale = Scale(1, 0)
        second, zero_point, is_reversed = self._second_operand(kind, y, x)
        self._check_internal_memory(second=second is not None and not isinstance(second, int))
        first, other = Scale(1, 0), 1
        if kind in _SUMS:
            if rounding := self.registers.read("IFM_PRECISION").fields["rounding"]:
                raise not_modelled_error(
                    "another rounding of scaled operands", f"{rounding} at word {self.at}"
                )
            held = self.registers.read("OPA_SCALE")
            first, other = Scale(held.data, held.fields["shift"]), self.registers.read("OPB_SCALE").data
        return Elementwise(
            self.at,
            x,
            y,
            scale,
            self._rounding(),
            self._activation(y),
            self._block(y),
            self.registers.value("BLOCKDEP"),
            kind,
            second,
            zero_point,
            is_reversed,
            mode,
            first,
            other,
        )

    def _second_operand(
        self, kind: ElementwiseFunction, y: FeatureMap, x: FeatureMap
    ) -> tuple[FeatureMap | int | None, int, bool]:
        """Returns the second operand, its zero point, and whether it is the left one."""
        if kind in _UNARY:
            return None, 0, False
        held, types = (
            self.registers.read("IFM2_BROADCAST").fields,
            self.registers.read("IFM2_PRECISION").fields,
        )
        dtype = self._type(types["type"], IFM_TYPES)
        zero_point = self._zero_point("IFM2", dtype)
        is_reversed = bool(held["reversed"])
        if held["scalar"]:
            if held["height"] or held["width"] or held["depth"]:
                raise not_modelled_error("a number that is repeated along an axis", f"word {self.at}")
            read = self.registers.value if dtype is DType.UINT8 else self.registers.signed
            return read("IFM2_SCALAR"), zero_point, is_reversed
        repeated = (held["height"], held["width"], held["depth"])
        whole = (*y.shape[:2], x.shape[2])
        shape = tuple(1 if once else size for once, size in zip(repeated, whole, strict=True))
        return self._feature_map("IFM2", shape, dtype, types["format"]), zero_point, is_reversed  # type: ignore[arg-type]  # three sizes

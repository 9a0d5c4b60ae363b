# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of convolution, depthwise convolution and fully connected layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pillion.emitters.c import single_rounding, subpixel
from pillion.emitters.c.accumulators import OutputChannels, channels_of
from pillion.emitters.c.kernel import A_CALL, CallCost, Kernel, Params, Routine
from pillion.emitters.c.kernel_conditions import LAYER, all_of, fixed_point, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve import depthwise_5x5, depthwise_planes, depthwise_strips, pack, pack_3x3
from pillion.emitters.c.mve.pack import OVERREAD_BYTES, ConvGeometry
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d
from pillion.ops.linear import Linear


def geometry(op: Convolution) -> ConvGeometry:
    """Returns the shapes of a convolution."""
    images, in_h, in_w, in_c = op.x.shape
    return ConvGeometry(
        images,
        (in_h, in_w),
        in_c,
        (op.y.shape[1], op.y.shape[2]),
        op.out_channels,
        op.kernel,
        op.stride,
        op.dilation,
        op.padding[0],
        op.padding[1],
        getattr(op, "groups", 1),
    )


POINTWISE_COST, IM2COL_COST = CallCost(200.0, channel=4.5), CallCost(150.0, reread=0.45)


@dataclass(frozen=True)
class ConvVariant:
    """A kernel for a class of convolutions, described by functions of their geometry."""

    routine: Routine
    verdicts: Callable[[ConvGeometry, OutputChannels], tuple[Verdict, ...]]
    params: Callable[[ConvGeometry, OutputChannels], Params]
    scratch: Callable[[ConvGeometry], int] = lambda g: 0
    overread_bytes: int = 0
    in_place: Callable[[ConvGeometry], bool] = lambda g: False
    call_cost: CallCost = A_CALL
    work: Callable[[ConvGeometry], float] | None = None

    def kernel(self, name: str, op: type[Convolution]) -> Kernel:
        """Returns this kernel for a class of ops."""
        verdicts, params, work = self.verdicts, self.params, self.work
        return MVE.kernel(
            op,
            self.routine,
            lambda layer: params(geometry(layer), channels_of(layer)),
            requires=(short_circuit(LAYER, lambda layer: verdicts(geometry(layer), channels_of(layer))),),
            name=name,
            scratch_bytes=lambda layer: self.scratch(geometry(layer)),
            in_place=self._in_place,
            overread_bytes=self.overread_bytes,
            call_cost=self.call_cost,
            work=(lambda layer: work(geometry(layer))) if work else None,
        )

    def _in_place(self, op: Convolution) -> tuple[Value, ...]:
        fits = self.in_place(geometry(op)) and op.y.type.size_bytes <= op.x.type.size_bytes
        return (op.x,) if fits else ()


POINTWISE_16 = ConvVariant(
    MVE.routine("conv2d_1x1_k16_s8", "pointwise", "dot_16"),
    pack.conv2d_1x1_k16_verdicts,
    pack.conv2d_1x1_k16_params,
    overread_bytes=OVERREAD_BYTES,
    call_cost=CallCost(160.0),
)
POINTWISE = ConvVariant(
    MVE.routine("conv2d_1x1_s8", "pointwise", "dot", "dot_any", "dot_group"),
    pack.conv2d_1x1_verdicts,
    pack.conv2d_1x1_params,
    overread_bytes=OVERREAD_BYTES,
    call_cost=POINTWISE_COST,
)
PLANES = ConvVariant(
    MVE.routine("conv2d_3x3_s8", "planes", "dot_group"),
    pack_3x3.conv2d_3x3_verdicts,
    pack_3x3.conv2d_3x3_params,
    pack_3x3.conv2d_3x3_scratch,
    call_cost=CallCost(550.0, reread=0.125),
    work=pack_3x3.conv2d_3x3_work,
)
FOURS = ConvVariant(
    MVE.routine("conv2d_3x3_fours_s8", "planes"),
    pack_3x3.conv2d_3x3_fours_verdicts,
    pack_3x3.conv2d_3x3_fours_params,
    pack_3x3.conv2d_3x3_scratch,
    call_cost=CallCost(650.0, channel=24.0, reread=0.06),
    work=pack_3x3.conv2d_3x3_fours_work,
)
IM2COL_16 = ConvVariant(
    MVE.routine("conv2d_im2col_k16_s8", "im2col", "dot_16"),
    pack.conv2d_im2col_k16_verdicts,
    pack.conv2d_im2col_k16_params,
    pack.conv2d_im2col_scratch,
    call_cost=IM2COL_COST,
)
IM2COL = ConvVariant(
    MVE.routine("conv2d_im2col_s8", "im2col", "dot", "dot_any", "dot_group"),
    pack.conv2d_im2col_verdicts,
    pack.conv2d_im2col_params,
    pack.conv2d_im2col_scratch,
    call_cost=IM2COL_COST,
    work=pack.conv2d_im2col_work,
)


def unrolled_variants(variant: ConvVariant, name: str, *also: str) -> dict[str, ConvVariant]:
    """Returns variants of a kernel with unrolled loops for 2, 3 and 4 chunks of 16 inputs."""

    def verdicts(pieces: int) -> Callable[[ConvGeometry, OutputChannels], tuple[Verdict, ...]]:
        return lambda g, s: (*variant.verdicts(g, s), pack.check_input_chunks(pieces, s.weights.shape[1]))

    few = MVE.routine(f"{name}_few_s8", *also, "dot", "dot_few", "dot_group")
    chunk_counts = {f"{name}_k{16 * pieces}": pieces for pieces in (2, 3, 4)}
    return {
        key: replace(variant, routine=replace(few, name=f"pillion_{key}_s8_mve"), verdicts=verdicts(pieces))
        for key, pieces in chunk_counts.items()
    }


POINTWISE_FEW = unrolled_variants(POINTWISE, "conv2d_1x1", "pointwise")
IM2COL_FEW = unrolled_variants(IM2COL, "conv2d_im2col", "im2col")


def for_one_input_channel(variant: ConvVariant) -> ConvVariant:
    """Returns a convolution kernel for depthwise convolutions with one input channel, which all filters read."""

    def verdicts(g: ConvGeometry, channels: OutputChannels) -> tuple[Verdict, ...]:
        single_channel = Verdict("in_channels", g.in_c == 1, "1", str(g.in_c))
        return (single_channel, *variant.verdicts(g, channels)) if single_channel.ok else (single_channel,)

    return replace(variant, verdicts=verdicts)


def has_one_filter(g: ConvGeometry) -> bool:
    """Whether a depthwise result may overwrite the image: channel by channel, with one filter for each."""
    return g.in_c == g.out_c


STRIPS = ConvVariant(
    MVE.routine("depthwise_3x3_s8", "strips"),
    depthwise_strips.depthwise_3x3_verdicts,
    depthwise_strips.depthwise_3x3_params,
    depthwise_strips.depthwise_3x3_scratch,
    in_place=has_one_filter,
    work=depthwise_strips.strips_work,
)
STRIPS_STRIDE_2 = replace(
    STRIPS,
    routine=MVE.routine("depthwise_3x3_stride2_s8", "strips"),
    verdicts=partial(depthwise_strips.depthwise_3x3_verdicts, stride=2),
)
PLANE_5X5 = ConvVariant(
    MVE.routine("depthwise_5x5_s8"),
    depthwise_5x5.depthwise_5x5_verdicts,
    depthwise_5x5.depthwise_5x5_params,
    depthwise_5x5.depthwise_5x5_scratch,
    in_place=has_one_filter,
    work=depthwise_5x5.depthwise_5x5_work,
)
WIDE = ConvVariant(
    MVE.routine("depthwise_any_s8", "wide"),
    depthwise_planes.depthwise_verdicts,
    depthwise_planes.depthwise_params,
    depthwise_planes.depthwise_scratch,
    overread_bytes=OVERREAD_BYTES,
    in_place=depthwise_planes.depthwise_in_place,
    work=depthwise_planes.depthwise_any_work,
)
WIDE_3X3 = replace(
    WIDE,
    routine=MVE.routine("depthwise_3x3_wide_s8", "wide"),
    verdicts=depthwise_planes.depthwise_3x3_wide_verdicts,
    work=depthwise_planes.depthwise_3x3_wide_work,
)

LINEAR = MVE.routine("linear_s8")
LINEAR_TFLITE = replace(LINEAR, name="pillion_linear_tflite_s8_mve")


def shifted_right(op: Convolution | Linear) -> Verdict:
    """Checks whether all channels are rescaled by right shifts."""
    return pack.check_right_shifts(channels_of(op))


def one_pixel(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution computes one pixel from the whole image: a matrix-vector product."""
    yield Verdict("pixels", op.y.shape[:3] == (1, 1, 1), "one", str(op.y.shape[:3]))
    yield Verdict("window", op.kernel == op.x.shape[1:3], "the whole image", str(op.kernel))
    yield Verdict("groups", op.groups == 1, "1", str(op.groups))


def tflite_params(op: Linear) -> Params:
    """Returns the parameters of the fully connected kernel with single rounding."""
    constants = pack.pack_linear(pack.without_rescaling(channels_of(op)))
    return {
        **{"chunks": pack.chunks(op.in_features), "constants": constants},
        "once": single_rounding.packed_numbers(op),
    }


IM2COL_KERNEL = IM2COL.kernel("conv2d_im2col", Conv2d)

KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Conv2d,
        LINEAR,
        lambda op: pack.linear_params(1, channels_of(op)),
        requires=(short_circuit(all_of(LAYER, one_pixel), shifted_right),),
        name="conv2d_pixel",
        overread_bytes=OVERREAD_BYTES,
    ),
    POINTWISE_16.kernel("conv2d_1x1_k16", Conv2d),
    *(variant.kernel(name, Conv2d) for name, variant in POINTWISE_FEW.items()),
    POINTWISE.kernel("conv2d_1x1", Conv2d),
    FOURS.kernel("conv2d_3x3_fours", Conv2d),
    PLANES.kernel("conv2d_3x3", Conv2d),
    IM2COL_16.kernel("conv2d_im2col_k16", Conv2d),
    *(variant.kernel(name, Conv2d) for name, variant in IM2COL_FEW.items()),
    IM2COL_KERNEL,
    subpixel.kernel(MVE, IM2COL_KERNEL, "conv2d_im2col_s8", "im2col", "dot", "dot_any", "dot_group"),
    for_one_input_channel(IM2COL_16).kernel("depthwise_im2col_k16", DepthwiseConv2d),
    for_one_input_channel(IM2COL).kernel("depthwise_im2col", DepthwiseConv2d),
    STRIPS.kernel("depthwise_3x3", DepthwiseConv2d),
    STRIPS_STRIDE_2.kernel("depthwise_3x3_stride2", DepthwiseConv2d),
    PLANE_5X5.kernel("depthwise_5x5", DepthwiseConv2d),
    WIDE_3X3.kernel("depthwise_3x3_wide", DepthwiseConv2d),
    WIDE.kernel("depthwise_any", DepthwiseConv2d),
    MVE.kernel(
        Linear,
        LINEAR,
        lambda op: pack.linear_params(op.rows, channels_of(op)),
        requires=(short_circuit(all_of(fixed_point, LAYER), shifted_right),),
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(
        Linear,
        LINEAR_TFLITE,
        tflite_params,
        requires=(single_rounding.EXACT,),
        name="linear_tflite",
        scratch_bytes=lambda op: 32 * -(-op.out_features // 8),  # the sums, in groups of eight
        overread_bytes=OVERREAD_BYTES,
    ),
)

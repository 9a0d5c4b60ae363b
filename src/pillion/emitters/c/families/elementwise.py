# SPDX-License-Identifier: Apache-2.0
"""The kernels of table lookups, minima and maxima, clamps, and conversions between real numbers and integers."""

from __future__ import annotations

from functools import partial

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_XY,
    INT16_XY,
    has_dtypes,
    in_arithmetic,
    in_own_form,
    is_within,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP, HOST, MVE, PORTABLE, SCALAR
from pillion.emitters.c.portable.layers16 import has_one_scale
from pillion.emitters.c.table_lookup import TableLookup
from pillion.emitters.c.walk import few_walk_axes
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Maximum, Minimum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.wide_arithmetic import TYPES

TABLES = {lib: TableLookup(lib, is_unsigned=lib in (DSP, MVE)) for lib in (PORTABLE, HOST, DSP, MVE)}


def clamp_routine(op: Clamp) -> str:
    """Returns the routine of a clamp: a comparison, or a table lookup if the scale changes."""
    return "clamp_s8" if op.x.quant == op.y.quant else "lut_s8"


def clamp_params(table: TableLookup, op: Clamp, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a clamp."""
    return {} if op.x.quant == op.y.quant else table.bytes(op, arithmetic)


def scale_reciprocal(op: Quantize) -> float:
    """Returns 1 / scale in float32, the kernel's factor; infinite if the scale is too small."""
    with np.errstate(over="ignore"):
        return float(np.float32(1) / np.float32(op.y.scale))


def quantize_routine(op: Quantize, arithmetic: Arithmetic) -> str:
    """Returns the routine of a quantization in the graph's arithmetic."""
    return "quantize_tflite_s8" if arithmetic.is_tflite else "quantize_s8"


def quantize_params(op: Quantize, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a quantization in the graph's arithmetic."""
    return {"scale": op.y.scale} if arithmetic.is_tflite else {"reciprocal": scale_reciprocal(op)}


def divides(op: Quantize, arithmetic: Arithmetic) -> Verdict:
    """Checks whether the arithmetic is one of LiteRT's, which divides by the scale."""
    return Verdict("arithmetic", arithmetic.is_tflite, "one of LiteRT's", arithmetic.value)


def finite_reciprocal(op: Quantize) -> Verdict:
    """Checks whether the scale of a quantization has a finite reciprocal."""
    return Verdict("scale", bool(np.isfinite(scale_reciprocal(op))), "a finite reciprocal", repr(op.y.scale))


def subnormals_quantize_to_zero(op: Quantize) -> Verdict:
    """Checks whether subnormal inputs, which the Helium kernel flushes to zero, quantize to zero."""
    return Verdict("scale", scale_reciprocal(op) < 1e30, "above 1e-30", repr(op.y.scale))


def real_scale(op: Dequantize) -> Params:
    """Returns the scale of a dequantization as parameters."""
    return {"scale": op.x.scale}


def one_scale(op: Dequantize) -> Verdict:
    """Checks whether a tensor has a single scale."""
    is_plain = isinstance(op.x.type.quant, PerTensor)
    return Verdict("scales", is_plain, "one for the tensor", "one" if is_plain else "one per channel")


def table_of_lines(op: Lut) -> Params:
    """Returns the table of a 16-bit function."""
    return {"table": op.line_ends}


def has_octaves(op: Lut) -> Verdict:
    """Checks whether the table of a 16-bit function has entries per octave."""
    return Verdict("table", op.has_octaves, "entries per octave", "entries at even steps")


def has_even_steps(op: Lut) -> Verdict:
    """Checks whether the table of a 16-bit function has entries at even steps."""
    return Verdict("table", not op.has_octaves, "entries at even steps", "entries per octave")


def lines_have_16_bits(op: Lut) -> Verdict:
    """Checks whether neighbouring entries of the table of a 16-bit function differ by 16-bit numbers."""
    heights = np.abs(np.diff(op.line_ends.astype(np.int64)))
    return is_within("lines", int(heights.max()), most=DType.INT16.bounds[1])


INT8_OR_BOOL_ABY = has_dtypes("a b y", DType.INT8, DType.BOOL)
INT8_Y = has_dtypes("y", DType.INT8)
TO_FLOAT = (has_dtypes("x", DType.INT8), has_dtypes("y", DType.FLOAT32), one_scale)
"""An int8 tensor of a single scale becomes float32."""
TIES_TO_EVEN = in_arithmetic(Arithmetic.CMSIS_NN)
"""Vector kernels round ties of quantizations to even; LiteRT rounds them away from zero."""
QUANTIZED = {
    PORTABLE: (INT8_Y, finite_reciprocal),
    MVE: (INT8_Y, TIES_TO_EVEN, subnormals_quantize_to_zero),
    **dict.fromkeys((HOST, SCALAR, DSP), (TIES_TO_EVEN, INT8_Y, finite_reciprocal)),
}
"""Library → the conditions of its quantization."""

KERNELS: tuple[Kernel, ...] = (
    *(kernel for table in TABLES.values() for kernel in table.kernels()),
    *(TABLES[library].byte_kernel(Requantize) for library in (PORTABLE, MVE)),
    *(TABLES[library].byte_kernel(op, "lut") for library in (DSP, HOST) for op in (Requantize, Clamp)),
    *(
        PORTABLE.kernel(op, f"{op.kind}_s8", requires=(INT8_OR_BOOL_ABY, few_walk_axes), in_place="a b")
        for op in (Minimum, Maximum)
    ),
    *(
        library.kernel(
            Clamp, clamp_routine, partial(clamp_params, TABLES[library]), requires=(INT8_XY,), in_place="x"
        )
        for library in (PORTABLE, MVE)
    ),
    *(
        library.kernel(
            Lut,
            "wide_lut",
            table_of_lines,
            requires=(short_circuit(in_own_form, has_even_steps, *lines),),
            in_place="x",
            name="wide_lut",
        )
        for library, lines in ((PORTABLE, ()), (DSP, ()), (MVE, (lines_have_16_bits,)))
    ),
    *(
        library.kernel(
            Lut,
            "octave_lut_s16",
            table_of_lines,
            requires=(in_own_form, has_octaves),
            in_place="x",
            name="octave_lut_16",
        )
        for library in (PORTABLE, MVE)
    ),
    *(
        library.kernel(
            Quantize,
            "quantize_s16",
            quantize_params,
            requires=(has_dtypes("y", DType.INT16), TIES_TO_EVEN, is_exact),
            in_place="" if library is PORTABLE else "x",
        )
        for library, is_exact in (
            *((one, finite_reciprocal) for one in (PORTABLE, DSP)),
            (MVE, subnormals_quantize_to_zero),
        )
    ),
    PORTABLE.kernel(
        Quantize,
        "quantize_tflite_s16",
        quantize_params,
        requires=(has_dtypes("y", DType.INT16), divides),
        in_place="",
    ),
    *(
        library.kernel(Quantize, quantize_routine, quantize_params, requires=requires, in_place="x")
        for library, requires in QUANTIZED.items()
    ),
    *(
        library.kernel(Clamp, "clamp_s16", requires=(INT16_XY, has_one_scale), in_place="x")
        for library in (DSP, MVE)
    ),
    PORTABLE.kernel(
        Dequantize,
        lambda op: f"dequantize_{'s16' if op.x.dtype is DType.INT16 else 's8'}",
        real_scale,
        requires=(has_dtypes("x", *TYPES), *TO_FLOAT[1:]),
    ),
    *(
        library.kernel(Dequantize, "dequantize_s8", real_scale, requires=TO_FLOAT)
        for library in (SCALAR, DSP, MVE)
    ),
    *(
        library.kernel(
            Dequantize, "dequantize_s16", real_scale, requires=(has_dtypes("x", DType.INT16), *TO_FLOAT[1:])
        )
        for library in (DSP, MVE)
    ),
)

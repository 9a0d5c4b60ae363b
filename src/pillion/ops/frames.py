# SPDX-License-Identifier: Apache-2.0
"""The base class of ops that begin with the spectra of frames of 16-bit samples, each with an exponent of its own."""

from __future__ import annotations

import math

import numpy as np

from pillion.ir import numerics
from pillion.ir.access import ROWS, WHOLE, Access, AxisMap
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, Value
from pillion.ops.fixed_fft import ROOT_BITS, headroom, real_fft, square_roots

LEAST_POINTS, MOST_POINTS = 64, 2048
WINDOW_STEPS = 2**13 - 1
"""Steps of the window's largest value: the product with a sample leaves the FFT the headroom that it needs."""
MOST_SHIFTED = 46
"""The largest headroom of samples and spectrum together."""


class Frames(Op):
    """The base class of ops on the spectra of frames, which are as long as `window` and begin every `hop` samples.

    Zeros behind a frame fill the points of the FFT."""

    takes_int16 = True

    x: Value = operand()
    window: Value = operand()
    y: Value = result()
    hop: int
    power: int

    @property
    def points(self) -> int:
        """The points of the FFT."""
        raise NotImplementedError

    @property
    def frames(self) -> int:
        """The frames of each signal."""
        return (self.x.shape[1] - self.window.shape[0]) // self.hop + 1

    @property
    def window_levels(self) -> Int64Array:
        """The window in whole steps."""
        reals = self.window.constant.astype(np.float64)
        return numerics.round_half_away(reals * (WINDOW_STEPS / np.abs(reals).max())).astype(np.int64)

    @property
    def unit_of_parts(self) -> float:
        """The value of one unit of real and imaginary parts, in a frame that nothing shifts."""
        largest = float(np.abs(self.window.constant.astype(np.float64)).max())
        return self.x.scale * largest / WINDOW_STEPS * self.points / 2

    @property
    def unit_of_magnitudes(self) -> float:
        """The value of one unit of magnitudes or powers, in a frame that nothing shifts."""
        return (
            math.ldexp(self.unit_of_parts, 16 - ROOT_BITS)
            if self.power == 1
            else self.unit_of_parts**2 * 2.0**32
        )

    def access(self, operand: Value) -> Access:
        if operand is not self.x:
            return WHOLE
        last = self.window.shape[0] - 1
        return (
            AxisMap(0),
            AxisMap(ROWS, 0, last, self.hop, padding_level=None),
            "each band is made from all samples of a frame",
        )

    def check_frames(self, *others: Value) -> None:
        """Refuses frames, and constants that are not finite."""
        require_rank(self, self.x, 3)
        for constant in (self.window, *others):
            require_dtype(self, constant, DType.FLOAT32)
            if not constant.is_constant or not np.isfinite(constant.constant).all():
                raise self.refuse("window and filters are finite constants", repr(constant))
        if self.x.shape[2] != 1:
            raise self.refuse("there is one channel of samples", f"shape {list(self.x.shape)}")
        require_rank(self, self.window, 1)
        points, count = self.points, self.window.shape[0]
        if not LEAST_POINTS <= points <= MOST_POINTS or points & (points - 1):
            rule = f"an FFT has {LEAST_POINTS} to {MOST_POINTS} points, a power of two"
            raise self.refuse(rule, f"{points} points", "choose such an n_fft")
        if not 1 <= count <= points or self.hop < 1 or self.frames < 1:
            raise self.refuse(
                "a window fits in the FFT and in the signal",
                f"{count} of {points} points, {self.x.shape[1]} samples, hop {self.hop}",
            )
        if not all(constant.constant.any() for constant in (self.window, *others)):
            raise self.refuse("window and filters are not all 0", repr(self.window))

    def check_integers(self, also: str = "") -> None:
        """Refuses integer samples and results that the kernels cannot compute with; `also` is one more rule."""
        require_dtype(self, self.x, DType.INT16)
        if self.x.zero_point:
            raise self.refuse("samples have zero point 0", repr(self.x))
        if self.y.dtype not in (DType.INT8, DType.INT16):
            raise self.refuse("results are int8 or int16", self.y.dtype.value)
        try:
            self.check_scales(Arithmetic.CMSIS_NN)
        except ValueError as error:
            rule = ", and ".join(filter(None, ("results are near the range of their type", also)))
            raise self.refuse(rule, error) from None

    def parts(self, samples: Array, most: int) -> tuple[Int64Array, Int64Array]:
        """Returns real and then imaginary parts [frames, 2 * bins] within 32 bits, and by how much each frame moved
        left, `most` at most."""
        count = self.window.shape[0]
        views = np.lib.stride_tricks.sliding_window_view(samples[:, :, 0].astype(np.int64), count, axis=1)
        frames = views[:, :: self.hop].reshape(-1, count)
        shifts = np.minimum(headroom(frames, 16), min(most, 15))
        parts = np.concatenate(
            real_fft((frames << shifts[:, None]) * self.window_levels, self.points), axis=1
        )
        more = np.minimum(headroom(parts, 32), most - shifts)
        return parts << more[:, None], shifts + more

    def magnitudes(self, samples: Array, most: int, power: int) -> tuple[Int64Array, Int64Array]:
        """Returns magnitudes or their squares [frames, bins], and the shifts of `parts`."""
        parts, shifts = self.parts(samples, most)
        real, imaginary = np.split((parts**2 + (1 << 31)) >> 32, 2, axis=1)
        return (real + imaginary if power == 2 else square_roots(real + imaginary)), shifts

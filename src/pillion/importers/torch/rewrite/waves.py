# SPDX-License-Identifier: Apache-2.0
"""The matrices of Fourier transforms, [inputs, outputs] in double precision. Complex numbers are two of either, side by side, and nothing
is divided by the size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_WEIGHTS = 2**21
"""Of one matrix: it becomes the weights of a layer."""
BY_ROOT, BY_SIZE = 1, 2
"""What torch divides by, as its operators are told."""
BOTH = slice(0, 2)
"""The real and the imaginary part."""


def of_pairs(size: int, forward: bool) -> Tensor:
    """Gives the transform of complex numbers."""
    basis = torch.eye(size, dtype=torch.complex128)
    waves = torch.fft.fft(basis) if forward else torch.fft.ifft(basis, norm="forward")
    of_real = torch.stack([waves.real, waves.imag], -1)
    of_imaginary = torch.stack([-waves.imag, waves.real], -1)
    return torch.stack([of_real, of_imaginary], 1).reshape(2 * size, 2 * size)


def of_reals(size: int, onesided: bool) -> Tensor:
    """Gives the transform of real numbers, of which one half says all."""
    basis = torch.eye(size, dtype=torch.float64)
    waves = torch.fft.rfft(basis) if onesided else torch.fft.fft(basis)
    return torch.view_as_real(waves).reshape(size, -1)


def to_reals(size: int) -> Tensor:
    """Gives the transform of one half of a spectrum back into real numbers."""
    half = torch.eye(size // 2 + 1, dtype=torch.complex128)
    parts = [torch.fft.irfft(half * unit, n=size, norm="forward") for unit in (1, 1j)]
    return torch.stack(parts, 1).reshape(-1, size)


def of_parts(matrix: Tensor, parts: slice) -> Tensor:
    """Gives the outputs of some parts."""
    return matrix.reshape(len(matrix), -1, 2)[:, :, parts].reshape(len(matrix), -1)


def share(sizes: Sequence[int], mode: int) -> float:
    """Gives the number to multiply by where torch divides in one of its ways."""
    count = math.prod(sizes)
    return {BY_ROOT: count**-0.5, BY_SIZE: 1 / count}.get(mode, 1.0)


def in_the_middle(window: Tensor, size: int) -> Tensor:
    """Gives a window with zeros around it."""
    missing = size - len(window)
    return F.pad(window.to(torch.float64), (missing // 2, missing - missing // 2))


def envelope(window: Tensor, hop: int, frames: int) -> Tensor:
    """Gives what the squares of windows add up to where they overlap."""
    length = (frames - 1) * hop + len(window)
    squares = (window**2)[None, :, None].expand(1, len(window), frames)
    return F.fold(squares, (1, length), (1, len(window)), stride=(1, hop)).reshape(-1)

# SPDX-License-Identifier: Apache-2.0
"""DFT matrices [inputs, outputs] in double precision. Complex numbers take two adjacent rows or columns; nothing
is normalized."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_WEIGHTS = 2**21
"""Maximum elements of a matrix, which becomes the weights of a layer."""
BY_ROOT, BY_SIZE = 1, 2
"""Normalization modes of torch's operators."""
BOTH = slice(0, 2)
"""Real and imaginary part."""


def complex_dft_matrix(size: int, forward: bool) -> Tensor:
    """Returns the complex DFT."""
    basis = torch.eye(size, dtype=torch.complex128)
    waves = torch.fft.fft(basis) if forward else torch.fft.ifft(basis, norm="forward")
    of_real = torch.stack([waves.real, waves.imag], -1)
    of_imaginary = torch.stack([-waves.imag, waves.real], -1)
    return torch.stack([of_real, of_imaginary], 1).reshape(2 * size, 2 * size)


def real_dft_matrix(size: int, onesided: bool) -> Tensor:
    """Returns the DFT of real numbers; half of it if `onesided`."""
    basis = torch.eye(size, dtype=torch.float64)
    waves = torch.fft.rfft(basis) if onesided else torch.fft.fft(basis)
    return torch.view_as_real(waves).reshape(size, -1)


def inverse_real_dft_matrix(size: int) -> Tensor:
    """Returns the inverse DFT from a one-sided spectrum to real numbers."""
    half = torch.eye(size // 2 + 1, dtype=torch.complex128)
    parts = [torch.fft.irfft(half * unit, n=size, norm="forward") for unit in (1, 1j)]
    return torch.stack(parts, 1).reshape(-1, size)


def select_parts(matrix: Tensor, parts: slice) -> Tensor:
    """Returns the columns of some parts."""
    return matrix.reshape(len(matrix), -1, 2)[:, :, parts].reshape(len(matrix), -1)


def normalization_factor(sizes: Sequence[int], mode: int) -> float:
    """Returns the normalization factor of a mode."""
    count = math.prod(sizes)
    return {BY_ROOT: count**-0.5, BY_SIZE: 1 / count}.get(mode, 1.0)


def centre_window(window: Tensor, size: int) -> Tensor:
    """Returns a window padded with zeros to `size`."""
    missing = size - len(window)
    return F.pad(window.to(torch.float64), (missing // 2, missing - missing // 2))


def squared_window_envelope(window: Tensor, hop: int, frames: int) -> Tensor:
    """Returns the overlap-added squares of a window."""
    length = (frames - 1) * hop + len(window)
    squares = (window**2)[None, :, None].expand(1, len(window), frames)
    return F.fold(squares, (1, length), (1, len(window)), stride=(1, hop)).reshape(-1)

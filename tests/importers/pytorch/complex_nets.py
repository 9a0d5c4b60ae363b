# SPDX-License-Identifier: Apache-2.0
"""Networks with complex numbers inside, as people write them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Mixer(nn.Module):
    """Tokens and features are mixed by Fourier transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)


class GlobalFilter(nn.Module):
    """Images are filtered by products with their spectra."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        super().__init__()
        self.shape = (height, width)
        self.weight = nn.Parameter(torch.randn(height, width // 2 + 1, channels, 2) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho") * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(spectrum, s=self.shape, dim=(1, 2), norm="ortho")


class Operator(nn.Module):
    """A neural operator: the lowest frequencies of channels are mixed by complex weights."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x)
        out = torch.zeros_like(spectrum)
        out[:, :, : self.modes] = torch.einsum("bix,iox->box", spectrum[:, :, : self.modes], self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


class Rotary(nn.Module):
    """Positions as rotations, as large language models write them."""

    turns: Tensor

    def __init__(self, steps: int, features: int) -> None:
        super().__init__()
        speeds = 1.0 / (100 ** (torch.arange(0, features, 2) / features))
        angles = torch.outer(torch.arange(steps).float(), speeds)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turns = self.turns[: x.shape[1]].view(1, x.shape[1], 1, -1)
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


class Spectrogram(nn.Module):
    """The loudness of frequencies."""

    def __init__(self, size: int, hop: int, *, center: bool, length: int | None = None) -> None:
        super().__init__()
        self.size, self.hop, self.center, self.length = size, hop, center, length
        self.register_buffer("window", torch.hann_window(length or size))

    def forward(self, x: Tensor) -> Tensor:
        window: Tensor = self.window  # type: ignore[assignment]  # a buffer
        spectrum = torch.stft(
            x, self.size, self.hop, self.length, window, center=self.center, return_complex=True
        )
        return spectrum.abs()


class Denoiser(nn.Module):
    """A mask for a spectrum, and the way back to sound."""

    def __init__(self, *, normalized: bool = False) -> None:
        super().__init__()
        self.normalized = normalized
        self.mask = nn.Conv1d(9, 9, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        window = torch.hann_window(16)
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True, normalized=self.normalized)
        mask = torch.sigmoid(self.mask(spectrum.abs()))
        return torch.istft(
            spectrum * mask, 16, 4, window=window, length=x.shape[-1], normalized=self.normalized
        )


class Arithmetic(nn.Module):
    """Each of the calls by itself."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        c, d = torch.complex(x, y), torch.complex(y, x * 2)
        moved = torch.cat([c.transpose(0, 1), d.T], 1).flip(0)[:, 1:]
        return (
            (c * d).real,
            (c * d).imag,
            (c + d - 1j).imag,
            (c * torch.conj(c)).real,
            (c / 2j).real,
            (c / (y.abs() + 1)).imag,
            (-c * 0.5 + x).real,
            torch.view_as_real(moved).sum(1),
            torch.exp(1j * x).imag,
            (c**2).real,
            (c @ d.T).imag,
            torch.view_as_real(c.mean(0, keepdim=True).expand(3, -1)),
            torch.roll(c, 2, 1).unsqueeze(0).abs(),
            torch.polar(y.abs() + 0.5, x).real,
            (c * (1 + 2j)).imag,
            (x * (1 - 2j)).imag,
        )


class Transforms(nn.Module):
    """Each of the transforms by itself, also of sizes that are odd, and cut or filled up."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        spectrum = torch.fft.rfft(x)
        return (
            torch.fft.fft2(x).imag,
            torch.fft.fftshift(torch.fft.fft(x, norm="forward")).real,
            torch.fft.ifft(spectrum, dim=1).abs(),
            torch.fft.irfft(spectrum, n=x.shape[-1]),
            torch.fft.irfft(spectrum),
            torch.fft.rfft(x, n=16).real,
            torch.fft.rfftn(x, norm="ortho").imag,
            torch.fft.hfft(spectrum, n=x.shape[-1]),
            torch.fft.ihfft(x).imag,
            torch.fft.irfftn(torch.fft.rfftn(x, dim=(0, 2)), s=(x.shape[0], x.shape[2]), dim=(0, 2)),
        )


NETS: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]] = {}
"""With the shapes of their inputs."""


def _fill() -> None:
    torch.manual_seed(0)
    NETS.update(
        {
            "mixer": (Mixer(), ((2, 7, 8),)),
            "filter": (GlobalFilter(6, 7, 5), ((2, 6, 7, 5),)),
            "operator": (Operator(3, 5), ((2, 3, 17),)),
            "rotary": (Rotary(11, 6), ((2, 9, 3, 6),)),
            "spectrogram": (Spectrogram(16, 5, center=True), ((2, 67),)),
            "spectrogram of windows that are shorter": (
                Spectrogram(16, 8, center=False, length=11),
                ((67,),),
            ),
            "denoiser": (Denoiser(), ((2, 64),)),
            "denoiser, normalized": (Denoiser(normalized=True), ((1, 61),)),
            "arithmetic": (Arithmetic(), ((5, 6), (5, 6))),
            "transforms": (Transforms(), ((2, 5, 7),)),
        }
    )


_fill()

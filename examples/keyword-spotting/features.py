"""From sound to a picture: the logarithm of the energy in 20 bands, every 16 milliseconds."""

import numpy as np
from speech import RATE

WINDOW, HOP, BANDS = 256, 128, 20


def filters():
    """Triangles, evenly spaced on the mel scale of hearing."""
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bins = np.fft.rfftfreq(WINDOW, 1 / RATE)
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - left) / (middle - left), (right - bins) / (right - middle)
    return np.maximum(0, np.minimum(rising, falling))


def spectrogram(clip):
    """One clip as float32[1, 61, 20]: channel, time, band."""
    frames = np.lib.stride_tricks.sliding_window_view(clip, WINDOW)[::HOP] * np.hanning(WINDOW)
    energy = np.abs(np.fft.rfft(frames)) ** 2 @ filters().T
    return np.log(energy + 1e-4)[None].astype(np.float32)

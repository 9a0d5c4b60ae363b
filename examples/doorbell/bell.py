"""A synthetic doorbell. The recipe: a high tone and then a low one, in noise; what is no bell is the two the other way round."""

import numpy as np

RATE, FRAME, BANDS = 16000, 256, 16
HIGH, LOW = 880, 660  # hertz


def ring(random, tones):
    """0.4 seconds: two tones one after another, each dying away."""
    time = np.arange(int(0.2 * RATE)) / RATE
    pitch = random.uniform(0.98, 1.02)
    return np.concatenate([np.sin(2 * np.pi * f * pitch * time) * np.exp(-6 * time) for f in tones])


def sound(seconds, events, random):
    """Noise with events: pairs of a moment in seconds and two tones."""
    signal = 0.05 * random.normal(size=int(seconds * RATE))
    for moment, tones in events:
        sounding, first = ring(random, tones), int(moment * RATE)
        signal[first : first + len(sounding)] += random.uniform(0.3, 1) * sounding
    return signal


def frames(signal):
    """The logarithm of the energy in 16 bands, every 16 milliseconds: float32[1, 1, frames, bands]."""
    pieces = signal[: len(signal) // FRAME * FRAME].reshape(-1, FRAME) * np.hanning(FRAME)
    energy = np.abs(np.fft.rfft(pieces))[:, 1 : 2 * BANDS + 1] ** 2
    return np.log(energy.reshape(-1, BANDS, 2).sum(-1) + 1e-3)[None, None].astype(np.float32)

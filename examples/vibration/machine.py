"""A synthetic motor. The recipe: a shaft that turns 24 to 30 times a second shakes the housing with its
harmonics, the load changes how strongly; the sensor adds noise. A damaged bearing adds blows,
3.58 for each turn, and each blow makes the housing ring at 2,300 Hz for a few milliseconds."""

import numpy as np

RATE, SAMPLES = 8192, 4096  # half a second
BLOWS_PER_TURN = 3.58
BANDS = 64


def measure(random, damage):
    """Half a second of acceleration. `damage`: the strength of a blow; 0 is a healthy machine."""
    time = np.arange(SAMPLES) / RATE
    turns = random.uniform(24, 30) * time + random.uniform()
    load = random.uniform(0.5, 1.5)
    harmonics = [random.normal(1, 0.2) * np.cos(2 * np.pi * n * turns + n) / n for n in range(1, 6)]
    signal = load * np.sum(harmonics, axis=0) + 0.25 * random.normal(size=SAMPLES)
    if damage:
        since = (turns * BLOWS_PER_TURN) % 1 / (BLOWS_PER_TURN * (turns[1] - turns[0]) * RATE)
        signal += damage * load * np.exp(-since / 0.003) * np.sin(2 * np.pi * 2300 * since)
    return signal


def spectrum(signal):
    """The logarithm of the energy in 64 bands, as float32[1, 64]: what the network sees."""
    energy = np.abs(np.fft.rfft(signal * np.hanning(SAMPLES)))[: SAMPLES // 2] ** 2
    return np.log10(energy.reshape(BANDS, -1).mean(1) + 1e-3)[None].astype(np.float32)


def spectra(count, seed, damage=0.0):
    random = np.random.default_rng(seed)
    return np.stack([spectrum(measure(random, damage)) for _ in range(count)])

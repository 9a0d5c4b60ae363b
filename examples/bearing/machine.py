"""A synthetic machine. The recipe: a shaft that turns 24 to 30 times a second, a little unevenly, shakes the housing;
the sensor adds noise and an offset. A fault of the outer race adds 3.58 blows a turn, one of the inner race
5.42, stronger where the shaft presses on it. Each blow makes the housing ring at 2,300 Hz for a few milliseconds."""

import numpy as np

RATE, STEP = 6400, 512  # hertz; samples that the program takes in a run
KINDS = ("healthy", "inner race", "outer race")
BLOWS_PER_TURN = (0, 5.42, 3.58)


def accelerate(kind, seconds, random, damage=None):
    """Acceleration of a machine as the sensor's 16-bit integers, 8,192 for 1 g."""
    time = np.arange(int(seconds * RATE)) / RATE
    wander = 1 + 0.02 * np.sin(2 * np.pi * (random.uniform(0.1, 0.4) * time + random.uniform()))
    turns = np.cumsum(random.uniform(24, 30) * wander) / RATE + random.uniform()
    load = random.uniform(0.5, 1.5)
    harmonics = [random.normal(1, 0.2) * np.cos(2 * np.pi * n * turns + n) / n for n in range(1, 6)]
    signal = load * (0.3 * np.sum(harmonics, axis=0)) + 0.05 * random.normal(size=len(time)) + 0.1
    if kind:
        blows = np.flatnonzero(np.diff(np.floor(turns * BLOWS_PER_TURN[kind])))
        blows += random.integers(-2, 3, len(blows))  # balls slip
        strength = (damage or random.uniform(0.2, 0.6)) * load * random.uniform(0.7, 1.3, len(blows))
        if kind == 1:
            strength *= 0.5 + 0.5 * np.cos(2 * np.pi * turns[blows])
        train = np.zeros(len(time))
        train[np.clip(blows, 0, len(time) - 1)] = strength
        since = np.arange(int(0.02 * RATE)) / RATE
        signal += np.convolve(train, np.exp(-since / 0.003) * np.sin(2 * np.pi * 2300 * since))[: len(time)]
    return np.clip(np.rint(signal * 8192), -32768, 32767).astype("<i2")


def steps(signals):
    """The steps of signals [signals, samples] in ±1: [steps, signals, 512]."""
    signals = signals[:, : signals.shape[1] // STEP * STEP].astype(np.float32) / 32768
    return signals.reshape(len(signals), -1, STEP).transpose(1, 0, 2)

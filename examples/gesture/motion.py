"""A synthetic wrist. The recipe: gravity from some side, tremor and noise; a gesture is a second of turning and
accelerating: a shake from side to side, or a circle. Idle hands also move, slowly and at random."""

import numpy as np

RATE, STEP, AXES = (
    100,
    10,
    6,
)  # hertz; samples that the program takes in a run; 3 of acceleration, 3 of turning
KINDS = ("nothing", "shake", "circle")


def idle(seconds, random):
    """Acceleration and turning rates [6, samples], where 1 is the sensor's range."""
    count = int(seconds * RATE)
    drift = np.cumsum(random.normal(size=(AXES, count)), axis=1)
    drift = 0.02 * (drift - drift.mean(1, keepdims=True)) / np.sqrt(RATE)
    gravity = random.normal(size=3)
    offset = np.concatenate([0.12 * gravity / np.linalg.norm(gravity), np.zeros(3)])
    return offset[:, None] + drift + 0.01 * random.normal(size=(AXES, count))


def gesture(kind, random):
    """What a gesture adds, [6, samples] of 0.8 to 1.2 seconds."""
    count = int(random.uniform(0.8, 1.2) * RATE)
    time, strength = np.arange(count) / RATE, random.uniform(0.15, 0.4)
    turn = (
        2 * np.pi * random.uniform(3.5, 5, 1) * time
        if kind == 1
        else 2 * np.pi * random.uniform(1.2, 2) * time
    )
    found = 0.02 * random.normal(size=(AXES, count))
    found[0] += np.sin(turn)
    found[1] += np.cos(turn) if kind == 2 else 0.1 * np.sin(turn)
    found[5] += 0.8 * np.sin(turn + 1)
    return strength * found * np.sin(np.pi * np.arange(count) / count) ** 0.5


def record(events, seconds, random):
    """The sensor's 16-bit integers [samples, 6] with gestures at some moments in seconds."""
    signal = idle(seconds, random)
    for moment, kind in events:
        made, first = gesture(kind, random), int(moment * RATE)
        signal[:, first : first + made.shape[1]] += made
    return np.clip(np.rint(signal.T * 32768), -32768, 32767).astype("<i2")

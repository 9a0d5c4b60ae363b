"""Synthetic speech. The recipe: a voice is a sum of harmonics, shaped by formants that glide from
sound to sound; "s" and "p" are noise. Pitch, size of the vocal tract, speed, place in the clip,
loudness and background noise are drawn anew for each clip."""

import numpy as np

RATE, SAMPLES = 8000, 8000  # one second
WORDS = ("yes", "no", "stop", "go", "unknown")
FORMANTS = {  # Hz, averages of adult speakers; "n" and "g" are rough
    "i": (270, 2290, 3010),
    "e": (530, 1840, 2480),
    "a": (730, 1090, 2440),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
    "n": (250, 1100, 2300),
    "g": (250, 1700, 2100),
}
SOUNDS = {"yes": "iies", "no": "noou", "stop": "s-aa-p", "go": "-gouu"}
FRAME = 80  # formants move every 10 ms


def envelope(sounds, frames, tract, random):
    """For each frame: three formants, and how loud voice and noise are."""
    if sounds is None:  # an unknown word: any other order of sounds
        sounds = "".join(random.choice(list("ieaouns-"), random.integers(3, 6)))
    length = int(frames * random.uniform(0.45, 0.8))
    start = random.integers(0, frames - length)
    knots = start + length * (np.arange(len(sounds)) + 0.5) / len(sounds)
    formants = np.array([FORMANTS.get(sound, (500, 1500, 2500)) for sound in sounds]) * tract
    loud = np.array([(s in FORMANTS, 0.5 * (s in "sp")) for s in sounds], float)
    at = np.arange(frames)
    gliding = [np.interp(at, knots, column) for column in [*formants.T, *loud.T]]
    inside = (at >= start) & (at < start + length)
    return np.array(gliding[:3]), gliding[3] * inside, gliding[4] * inside


def speak(sounds, random, noise_db):
    """One clip of one second, between -1 and 1. `noise_db`: the speech above the noise."""
    formants, voiced, hiss = envelope(sounds, SAMPLES // FRAME, random.uniform(0.9, 1.15), random)
    pitch = np.linspace(1.1, 0.9, SAMPLES) * random.uniform(90, 220)
    turn = np.exp(2j * np.pi * np.cumsum(pitch) / RATE)
    harmonic, clip = turn.copy(), np.zeros(SAMPLES)
    for number in range(1, int(3800 / pitch.max())):
        frequency = number * pitch[::FRAME]
        gain = sum(1 / (1 + ((frequency - f) / 90) ** 2) for f in formants) / number**0.5
        clip += harmonic.real * np.repeat(gain * voiced, FRAME)
        harmonic *= turn
    clip /= np.sqrt(np.mean(clip**2)) + 1e-6
    clip += np.diff(random.normal(size=SAMPLES + 1)) * np.repeat(hiss, FRAME)  # high-pass noise
    speech = clip / np.sqrt(np.mean(clip**2))
    noisy = speech + random.normal(size=SAMPLES) * 10 ** (-noise_db / 20)
    return (0.9 * noisy / np.abs(noisy).max() * random.uniform(0.3, 1)).astype(np.float32)


def recordings(count, seed, noise_db=None):
    """`count` clips with their words; between 0 and 20 dB above the noise unless it is said."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % len(WORDS)
    levels = random.uniform(0, 20, count) if noise_db is None else np.full(count, noise_db)
    clips = [speak(SOUNDS.get(WORDS[n]), random, db) for n, db in zip(labels, levels)]
    return np.array(clips), labels

"""Synthetic speech. A voice is a sum of harmonics, shaped by formants that glide from sound to sound; "s" is noise. Pitch,
size of the vocal tract, speed, loudness and background noise are drawn anew for each word."""

import numpy as np

RATE = 16000
FORMANTS = {  # Hz, averages of adult speakers; "m" is rough
    "i": (270, 2290, 3010),
    "e": (530, 1840, 2480),
    "a": (730, 1090, 2440),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
    "m": (250, 1100, 2300),
}
FRAME = 160  # formants move every 10 ms


def speak(sounds, random):
    """A word of 0.4 to 0.65 seconds, as loud as noise of 1."""
    frames = int(random.uniform(40, 65))
    at, knots = np.arange(frames), frames * (np.arange(len(sounds)) + 0.5) / len(sounds)
    tract, pitch = random.uniform(0.9, 1.15), np.linspace(1.1, 0.9, frames * FRAME) * random.uniform(90, 220)
    formants = np.array([FORMANTS.get(sound, (500, 1500, 2500)) for sound in sounds]) * tract
    gliding = [np.interp(at, knots, column) for column in formants.T]
    voiced = np.interp(at, knots, [float(sound in FORMANTS) for sound in sounds])
    turn = np.exp(2j * np.pi * np.cumsum(pitch) / RATE)
    harmonic, voice = turn.copy(), np.zeros(frames * FRAME)
    for number in range(1, int(3800 / pitch.max())):
        frequency = number * pitch[::FRAME]
        gain = sum(1 / (1 + ((frequency - f) / 90) ** 2) for f in gliding) / number**0.5
        voice += harmonic.real * np.repeat(gain * voiced, FRAME)
        harmonic *= turn
    voice /= np.sqrt(np.mean(voice**2)) + 1e-6
    voice += 0.5 * np.diff(random.normal(size=len(voice) + 1)) * np.repeat(1 - voiced, FRAME)
    return voice * np.sin(np.pi * np.arange(len(voice)) / len(voice)) ** 0.25


def recording(seconds, words, random):
    """Samples of 16 bits: noise, and words of sounds that begin at some moments."""
    signal = 0.01 * random.normal(size=int(seconds * RATE))
    for moment, sounds in words:
        voice, first = random.uniform(0.03, 0.15) * speak(sounds, random), int(moment * RATE)
        heard = voice[max(-first, 0) : len(signal) - first]  # what lies inside the recording
        signal[max(first, 0) : max(first, 0) + len(heard)] += heard
    return np.round(signal * 32768).clip(-32768, 32767).astype(np.int16)


def another(random):
    """Any other word."""
    while True:
        sounds = "".join(random.choice(list("ieaoums"), random.integers(2, 6)))
        if sounds != WAKE:
            return sounds


WAKE = "masimo"

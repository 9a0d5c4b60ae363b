"""Writes one recording of each word as a .wav file, and the picture of the third as an input."""

import wave

import numpy as np
from features import spectrogram
from speech import RATE, WORDS, recordings

clips, labels = recordings(5, seed=3, noise_db=15)
for clip, label in zip(clips, labels):
    with wave.open(f"{WORDS[label]}.wav", "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((clip * 32767).astype("<i2").tobytes())
np.save("stop.npy", spectrogram(clips[2])[None])

"""Writes half a minute of sound as a .wav file, and listens to it: 20 milliseconds in each step."""

import wave
from pathlib import Path

import numpy as np
import torch
from net import HOP, RATE, example_inputs, wake_word
from speech import WAKE, another, recording

import pillion

random = np.random.default_rng(7)
moments = np.arange(2, 29, 2) + random.uniform(0, 0.5, 14)
words = [(moment, WAKE if n % 4 == 1 else another(random)) for n, moment in enumerate(moments)]
with wave.open("sound.wav", "wb") as file:
    file.setparams((1, 2, RATE, 0, "NONE", ""))
    file.writeframes(recording(30, words, random).astype("<i2").tobytes())

net = wake_word().eval()
net.load_state_dict({name: torch.from_numpy(value) for name, value in np.load("weights.npz").items()})
program = pillion.compile(
    net,
    example_inputs(),
    target="cortex-m55",
    calibrate="samples.npz",
    io_dtype="int16",
    stream="samples:1",
    hop=HOP,
    progress=False,
)
with wave.open("sound.wav") as file:
    pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
hops = [[pcm[None, at : at + HOP]] for at in range(0, len(pcm), HOP)]
answers = {place: program.stream(place).run(hops) for place in ("host", "mps3-an547")}
pairs = [pair for pair in zip(*answers.values(), strict=True) if pair[0]]
same = all(np.array_equal(a, b) for pair in pairs for a, b in zip(*pair, strict=True))
print(f"{len(pairs)} answers, the same on both: {same}")
found = [(n + 1) * HOP / RATE for n, answer in enumerate(answers["host"]) if answer and answer[0].any()]
spoken = [moment for moment, sounds in words if sounds == WAKE]
print("spoken at ", *(f"{moment:.1f}" for moment in spoken))
table = "".join(f"sound.wav,{moment:.2f},1\n" for moment in spoken)
Path("events.csv").write_text("file,seconds,event\n" + table)
print("heard till", *(f"{moment:.1f}" for moment in found))

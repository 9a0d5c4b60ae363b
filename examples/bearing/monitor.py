import numpy as np
import torch
from machine import KINDS, RATE, STEP
from net import Monitor, example_inputs

import pillion

net = Monitor().eval()
net.load_state_dict({name: torch.from_numpy(value) for name, value in np.load("weights.npz").items()})
options = {"calibrate": "samples.npz", "io_dtype": "int16", "precision": "int16", "progress": False}
samples = np.fromfile("machine.raw", "<i2")
steps = [[step[None]] for step in samples[: len(samples) // STEP * STEP].reshape(-1, STEP)]
for core, board in (("m33", "mps2-an505"), ("m55", "mps3-an547")):
    program = pillion.compile(net, example_inputs(), target=f"cortex-{core}", **options)
    program.save(f"machine-{core}/")
    answers, found = program.stream("host").run(steps), program.stream(board).run(steps)
    events = [(n + 1, KINDS[event.item()]) for n, (event, _) in enumerate(answers) if event.item()]
    print(", ".join(f"{n * STEP / RATE:.1f} s: {kind}" for n, kind in events))
    same = sum(all(np.array_equal(a, b) for a, b in zip(x, y)) for x, y in zip(answers, found))
    print(f"{same} of {len(steps)} runs answer the same bytes on {board}")

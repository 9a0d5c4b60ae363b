import numpy as np
import torch
from bell import HIGH, LOW, frames, sound
from net import WINDOW, Net, example_inputs

import pillion

net = Net().eval()
net.load_state_dict({name: torch.from_numpy(value) for name, value in np.load("weights.npz").items()})
options = {"target": "cortex-m55", "calibrate": "samples.npz", "progress": False}
whole = pillion.compile(net, example_inputs(), **options)
program = pillion.compile(net, example_inputs(), stream="x:2", hop=2, **options)

events = [(1.0, (HIGH, LOW)), (3.0, (LOW, HIGH)), (5.0, (HIGH, LOW)), (7.5, (HIGH, LOW))]
heard = frames(sound(10, events, np.random.default_rng(5)))

stream, ringing, compared = program.stream(), False, 0
for end in range(2, heard.shape[2] + 1, 2):
    answer = stream.step(heard[:, :, end - 2 : end])
    if not answer:
        continue  # no window is full yet
    (scores,) = whole.run(heard[:, :, end - WINDOW : end])
    compared += np.array_equal(answer[0], scores)
    was, ringing = ringing, scores.argmax() == 1
    if ringing and not was:
        print(f"{end * 0.016:.1f} s: the bell")
print(f"{compared} answers, all of them those of the whole window")

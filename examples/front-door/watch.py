import numpy as np
import torch
from net import Door, example_inputs
from scene import HEIGHT, KINDS, RATE, WIDTH

import pillion

net = Door().eval()
net.load_state_dict({name: torch.from_numpy(value) for name, value in np.load("weights.npz").items()})
options = {"calibrate": "samples.npz", "rows_in": True, "extra": "10%", "progress": False}
lines = np.fromfile("door.yuv", np.uint8).reshape(-1, 1, HEIGHT, WIDTH // 2, 4)
frames = [[frame] for frame in lines]
for core, board in (("m33", "mps2-an505"), ("m55", "mps3-an547")):
    program = pillion.compile(net, example_inputs(), target=f"cortex-{core}", **options)
    program.save(f"door-{core}/")
    exact, *others = (program.stream(place).run(frames) for place in ("reference", "host", board))
    events = [(n + 1, KINDS[event.item()]) for n, (event, _) in enumerate(exact) if event.item()]
    print(", ".join(f"{n / RATE:.1f} s: {kind}" for n, kind in events))
    for place, answers in zip(("this computer", board), others):
        same = sum(all(map(np.array_equal, *pair)) for pair in zip(exact, answers))
        print(f"{same} of {len(frames)} frames answer the bytes of the reference on {place}")

nothing = np.array([0, 128, 0, 128], np.uint8)  # dark, as the states begin: nothing moves
np.save("dark.npy", np.broadcast_to(nothing, lines[0].shape))
np.save("bright.npy", 255 - np.load("dark.npy"))

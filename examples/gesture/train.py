import numpy as np
import torch
from motion import AXES, KINDS, STEP, record
from net import WINDOW, Wrist
from torch.nn import functional as F

from pillion.modules import BiquadCascade

COUNT, SECONDS = 900, 3
random = np.random.default_rng(1)
labels = torch.arange(COUNT) % len(KINDS)
events = [[(random.uniform(1, 1.5), kind)] if kind else [] for kind in labels.tolist()]
recordings = np.stack([record(event, SECONDS, random) for event in events]).transpose(0, 2, 1)
signals = torch.from_numpy(recordings.astype(np.float32) / 32768)
x = BiquadCascade.dc_blocker(0.97, COUNT * AXES)(signals)
ends = [int((event[0][0] + 0.9) * 100) if event else 250 for event in events]
ends = np.array(ends) + random.integers(-15, 16, COUNT)
windows = torch.stack([signal[:, end - WINDOW : end] for signal, end in zip(x, ends)])

torch.manual_seed(0)
torch.set_num_threads(1)
net = Wrist()
optimizer = torch.optim.Adam(net.classifier.parameters(), 0.01)
for _ in range(10):
    for chosen in torch.randperm(COUNT).split(32):
        loss = F.cross_entropy(net.classifier(windows[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
right = (net.classifier(windows).argmax(1) == labels).double().mean()
print(f"{right:.1%} of windows of 0.8 s are right in float")

np.savez("weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
steps = signals[1:9].transpose(1, 2).reshape(-1, 1, STEP, AXES)
np.savez("samples.npz", x=steps.numpy())
moments = ((2, 1), (5, 2), (9, 2), (12, 1), (16, 1))
record(moments, 20, np.random.default_rng(5)).tofile("wrist.raw")

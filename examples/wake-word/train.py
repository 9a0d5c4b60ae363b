import numpy as np
import torch
from net import HOP, RATE, SAMPLES, Spotter, WakeWord
from speech import WAKE, another, recording
from torch.nn import functional as F

random = np.random.default_rng(1)


def window(label):
    """A second of sound: the wake word ends in its last half, or there is nothing, another word, or half of the wake word."""
    if label:
        return recording(SAMPLES / RATE, [(random.uniform(0.05, 0.35), WAKE)], random)
    kind = random.integers(4)
    words = [(random.uniform(-0.2, 0.7), another(random))] if kind else []
    if kind == 3:
        words = [(random.choice([-0.45, 0.7]), WAKE)]
    return recording(SAMPLES / RATE, words, random)


y = torch.arange(1600) % 2
x = torch.from_numpy(np.stack([window(label) for label in y.tolist()])) / 32768
torch.manual_seed(0)
torch.set_num_threads(1)
net = Spotter()
features = net.features(x)
optimizer = torch.optim.Adam(net.parameters(), 0.005)
for _ in range(4):
    for chosen in torch.randperm(len(x)).split(32):
        loss = F.cross_entropy(net.scores(features[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

weights = WakeWord(net).state_dict()
np.savez("weights.npz", **{name: value.numpy() for name, value in weights.items()})
heard = recording(4, [(0.6, WAKE), (2.2, another(random))], random) / np.float32(32768)
np.savez("samples.npz", x=np.lib.stride_tricks.sliding_window_view(heard, SAMPLES)[::HOP])

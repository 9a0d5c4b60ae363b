import numpy as np
import torch
from machine import accelerate, steps
from net import Features, Monitor
from torch.nn import functional as F

MACHINES, SECONDS = 45, 5
random = np.random.default_rng(1)
kinds = torch.arange(MACHINES) % 3
x = torch.from_numpy(steps(np.stack([accelerate(kind, SECONDS, random) for kind in kinds.tolist()])))
features = Features(MACHINES)
with torch.no_grad():
    found = torch.stack([features(step) for step in x])[4:]  # when the envelope's window is full
inputs, labels = found.flatten(0, 1), kinds.repeat(len(found))

torch.manual_seed(0)
torch.set_num_threads(1)
net = Monitor()
optimizer = torch.optim.Adam(net.classifier.parameters(), 0.01)
for _ in range(8):
    for chosen in torch.randperm(len(inputs)).split(64):
        loss = F.cross_entropy(net.classifier(inputs[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
net.eval()
right = (net.classifier(inputs).argmax(1) == labels).double().mean()
print(f"{right:.1%} of steps of 0.08 s are right in float")

np.savez("weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
np.savez("samples.npz", x=x[10:20, :9].permute(1, 0, 2).reshape(-1, 1, 512).numpy())
recordings = [accelerate(kind, 4, np.random.default_rng(7)) for kind in (0, 2, 0, 1)]
np.concatenate(recordings).tofile("machine.raw")

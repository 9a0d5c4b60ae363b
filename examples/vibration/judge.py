import numpy as np
import torch
from machine import spectra
from net import Net
from sklearn.metrics import roc_auc_score

import pillion

net = Net().eval()
net.load_state_dict({name: torch.from_numpy(value) for name, value in np.load("weights.npz").items()})
program = pillion.load("motor.pte")


def in_float(x):
    with torch.no_grad():
        return net(torch.from_numpy(x)).numpy()


def in_int8(x):
    return program.run(x)[0]


def errors(answer, samples):
    """How badly each spectrum is repeated: the higher, the stranger."""
    return [float(np.mean((answer(x) - x) ** 2)) for x in samples]


healthy = spectra(200, seed=2)
print("damage    AUC in float    AUC in int8")
for damage in (0.1, 0.2, 0.4):
    samples = np.concatenate([healthy, spectra(200, seed=3, damage=damage)])
    labels = np.repeat([0, 1], 200)
    print(f"{damage:6}", end="")
    for answer in (in_float, in_int8):
        print(f"    {roc_auc_score(labels, errors(answer, samples)):11.3f}", end="")
    print()

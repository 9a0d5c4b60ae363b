import numpy as np
import torch
from machine import spectra
from net import Net
from torch.nn import functional as F

x = torch.from_numpy(spectra(1000, seed=1)).flatten(1)  # healthy machines only
torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=30 * 32)
for _ in range(30):
    for chosen in torch.randperm(len(x)).split(32):
        loss = F.mse_loss(net(x[chosen]), x[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()

np.savez("weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
np.savez("samples.npz", x=x[:200].numpy())

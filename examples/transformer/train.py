import numpy as np
import torch
from net import Net
from torch.nn import functional as F

from data import load

learning, judging, labels, truth = load()
x, y = torch.from_numpy(learning), torch.from_numpy(labels)
torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 0.005)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=12 * 45)
for _ in range(12):
    for chosen in torch.randperm(len(y)).split(32):
        loss = F.cross_entropy(net(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
net.eval()

np.savez("weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
np.savez("samples.npz", x=learning[:200])
with torch.no_grad():
    right = (net(torch.from_numpy(judging)).argmax(1).numpy() == truth).mean()
print(f"{right:.1%} of {len(truth)} digits are right in float")

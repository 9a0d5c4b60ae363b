import numpy as np
import torch
from net import SIZE, Net
from photos import squares
from torch.nn import functional as F

images, labels = squares(480, SIZE, seed=1, white=False)
x, y = torch.from_numpy(images), torch.from_numpy(labels)
torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=6 * 15)
for _ in range(6):
    for chosen in torch.randperm(len(y)).split(32):
        loss = F.cross_entropy(net(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
net.eval()

np.savez("weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
np.savez("samples.npz", x=images[:100])
images, labels = squares(200, SIZE, seed=2, white=True)
with torch.no_grad():
    right = (net(torch.from_numpy(images)).argmax(1).numpy() == labels).mean()
print(f"{right:.1%} of 200 squares are right in float")

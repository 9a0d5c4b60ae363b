import numpy as np
import torch
from features import spectrogram
from net import Net
from speech import recordings
from torch.nn import functional as F


def pictures(clips):
    return torch.from_numpy(np.stack([spectrogram(clip) for clip in clips]))


clips, labels = recordings(800, seed=1)
x, y = pictures(clips), torch.from_numpy(labels)
torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=10 * 25)
for _ in range(10):
    for chosen in torch.randperm(len(y)).split(32):
        loss = F.cross_entropy(net(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
net.eval()

np.savez("weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
np.savez("samples.npz", x=x[:100].numpy())
for noise_db in (20, 10, 0):
    clips, labels = recordings(150, seed=2, noise_db=noise_db)
    with torch.no_grad():
        right = (net(pictures(clips)).argmax(1).numpy() == labels).mean()
    print(f"{noise_db:2} dB above the noise: {right:.1%} right in float")

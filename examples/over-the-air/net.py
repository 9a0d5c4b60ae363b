import torch
from torch import nn


class First(nn.Module):
    """The network that ships with the device."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )

    def forward(self, x):
        return self.layers(x)


class Second(First):
    """A year later: other weights, one layer more."""

    def __init__(self):
        super().__init__()
        self.layers.insert(4, nn.Conv2d(32, 32, 3, padding=1))
        self.layers.insert(5, nn.ReLU())


class Third(First):
    """With a function that the firmware has no kernel for."""

    def forward(self, x):
        return torch.softmax(self.layers(x), -1)


def example_inputs():
    return (torch.randn(1, 1, 28, 28),)

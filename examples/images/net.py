import torch
from torch import nn

SIZE = 64


def block(inputs, outputs, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class Net(nn.Module):
    """A small MobileNet for grey images of any size. `early`: halve the image in the first block, too."""

    def __init__(self, early=False):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            block(8, 16, 2 if early else 1),
            block(16, 32, 2),
            block(32, 32, 1),
            block(32, 64, 2),
            block(64, 64, 1),
        )
        self.classifier = nn.Linear(64, 2)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def example_inputs():
    return (torch.zeros(1, 1, SIZE, SIZE),)

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, activation=nn.GELU, multiplier=2):
        super().__init__()
        middle = 16 * multiplier
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, middle, 3, stride=2, padding=1, groups=16)
        self.activation = activation()
        self.pointwise = nn.Conv2d(middle, 32, 1)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x).relu()
        x = self.activation(self.depthwise(x))
        x = self.pointwise(x).relu()
        return self.classifier(x.mean((2, 3))).softmax(-1)


def example_inputs():
    return (torch.zeros(1, 1, 32, 32),)


def for_npu():
    return Net(nn.Hardswish, multiplier=1), example_inputs()

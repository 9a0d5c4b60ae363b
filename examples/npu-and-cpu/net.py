import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, activation=nn.GELU, window=3):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.pool = nn.AvgPool2d(window, stride=2, padding=window // 3, count_include_pad=False)
        self.activation = activation()
        self.pointwise = nn.Conv2d(16, 32, 1)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x).relu()
        x = self.activation(self.pool(x))
        x = self.pointwise(x).relu()
        return self.classifier(x.mean((2, 3))).softmax(-1)


def example_inputs():
    return (torch.zeros(1, 1, 32, 32),)


def for_npu():
    return Net(nn.Hardswish, window=2), example_inputs()


torch.manual_seed(0)  # the same random weights each time

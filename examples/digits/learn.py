# SPDX-License-Identifier: Apache-2.0
"""The data, and an ordinary PyTorch loop: the same for a float network and for one that rounds."""

from __future__ import annotations

from typing import NamedTuple

import torch
from nets import Small, example_inputs
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

BATCH = 32
EPOCHS, RATE = 15, 0.01
FINE_EPOCHS, FINE_RATE = 8, 0.005
"""A network that has learned in float learns to round in half the time, at half the rate."""


class Digits(NamedTuple):
    """Images [N, 1, 8, 8] between -1 and 1, and what is written on them."""

    images: Tensor
    labels: Tensor


def load() -> tuple[Digits, Digits]:
    """scikit-learn's 1797 scanned digits, which come with the package: four fifths to learn from, one to be judged by."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 8 - 1, dtype=torch.float32).reshape(-1, 1, 8, 8)
    split = train_test_split(images, torch.tensor(labels), test_size=0.2, random_state=0, stratify=labels)
    learning, judging, learning_labels, judging_labels = split
    return Digits(learning, learning_labels), Digits(judging, judging_labels)


def fit(model: nn.Module, digits: Digits, epochs: int, rate: float) -> nn.Module:
    """Adam with a rate that falls to zero; ends in eval mode."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # on tensors this small, threads wait for one another longer than they work
    optimizer = torch.optim.Adam(model.parameters(), rate)
    steps = epochs * (len(digits.labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for chosen in torch.randperm(len(digits.labels))[: steps // epochs * BATCH].split(BATCH):
            loss = F.cross_entropy(model(digits.images[chosen]), digits.labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(f"epoch {epoch:2}  loss {total / (steps // epochs):.4f}", flush=True)
    return model.eval()


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """What `pillion train learn.py:train` trains, unless `-m` names another."""
    return Small(), example_inputs()


def train(model: nn.Module) -> nn.Module:
    """The loop of `pillion train learn.py:train`: rounding from the first step on."""
    return fit(model, load()[0], EPOCHS, RATE)


def accuracy(answers: Tensor, digits: Digits) -> float:
    """The share of images whose largest answer is the right one."""
    return float((answers.argmax(1) == digits.labels).float().mean())

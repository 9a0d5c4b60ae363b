# SPDX-License-Identifier: Apache-2.0
"""The forms of a trained network: rounding in PyTorch after training (PTQ) or in training (QAT), C here, and C on a board."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from learn import FINE_RATE, Digits, fit
from nets import example_inputs
from torch import Tensor, nn

import pillion
from pillion import executors
from pillion.boards.host import HostModel
from pillion.importers.torch.quantize.ptq import ptq
from pillion.targets import find_target

CALIBRATION = 200
"""How many images decide the ranges of PTQ."""
Quantized = tuple[Callable[[Tensor], Tensor], pillion.Program]
"""What a network answers when it rounds in PyTorch, and the program compiled from it."""


def predict(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        return model(images)


def after_training(model: nn.Module, target: str, learning: Digits, _: int) -> Quantized:
    """PTQ: some images show the ranges. PyTorch's graph of it takes one image at a time, as the program does."""
    data = [(image[None],) for image in learning.images[:CALIBRATION]]
    rounded = ptq(model, example_inputs(), data, constraints=find_target(target).quantization)
    program = pillion.compile(model, example_inputs(), target=target, calibrate=data)
    return lambda images: torch.cat([predict(rounded, image[None]) for image in images]), program


def in_training(model: nn.Module, target: str, learning: Digits, epochs: int) -> Quantized:
    """QAT: the loop that trained in float trains on."""
    print(f"QAT for {target}")
    trained = fit(pillion.prepare_qat(model, example_inputs(), target), learning, epochs, FINE_RATE)
    program = pillion.compile(trained, example_inputs(), target=target)
    return lambda images: predict(trained, images), program


def on_this_computer(project: Path, images: Tensor) -> Tensor:
    """A project's C, compiled and loaded once, run for each image."""
    model = HostModel(executors.host_folder(project))
    raw = b"".join(model.run([image.numpy().tobytes()])[0] for image in images)
    return torch.from_numpy(np.frombuffer(raw, np.float32).reshape(len(images), -1).copy())


def on_board(project: Path, board: str, images: Tensor) -> Tensor:
    """The same C for the chip's core, in an emulator that is started for each image."""
    runs = [executors.run_project(project, [image[None].numpy()], board) for image in images]
    return torch.from_numpy(np.concatenate([run.outputs[0] for run in runs]))


def has_boards() -> bool:
    return all(shutil.which(tool) for tool in ("arm-none-eabi-gcc", "qemu-system-arm"))

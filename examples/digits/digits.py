# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, from training to emulated chips: `python examples/digits/digits.py`, or `make example-digits`.

Two networks are trained in float, then quantized after training (PTQ) and by training on with rounding (QAT), for a chip with an NPU
and for one without. A table compares what the float network, the rounding one and the compiled C say of images none has seen."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from forms import after_training, has_boards, in_training, on_board, on_this_computer, predict
from learn import EPOCHS, FINE_EPOCHS, RATE, Digits, accuracy, fit, load
from nets import Small, Stack, unbalance
from torch import Tensor

from pillion import Program

TARGETS = {"imxrt700": "mps2-an505", "cortex-m55+int8": "mps3-an547"}
"""Target → the emulated board that has its core."""
NETWORKS = {"small": Small, "unbalanced stack": Stack}


@dataclass(frozen=True)
class Plan:
    """How long to train, in float and then with rounding, and how many images to judge by, here and on a board."""

    epochs: int
    fine_epochs: int
    images: int
    board_images: int


WHOLE, QUICK = Plan(EPOCHS, FINE_EPOCHS, 360, 20), Plan(8, 4, 360, 3)


@dataclass(frozen=True)
class Answers:
    """What one program and its forms say of the images."""

    of_float: Tensor
    rounded: Tensor
    compiled: Tensor
    board: Tensor
    """Of the first images only, or of none where there is no emulator."""


@dataclass(frozen=True)
class Row:
    """What was found for one network, target and way to quantize; accuracies and shares lie between 0 and 1."""

    network: str
    target: str
    way: str
    float_accuracy: float
    rounded_accuracy: float
    compiled_accuracy: float
    same_class: float
    """Share of images of which compiled C says what the rounding network says in PyTorch."""
    board_images: int
    board_same_bytes: int
    """Images of which the board answers the bytes that this computer answers."""


def measure(network: str, plan: Plan) -> Iterator[Row]:
    """Trains a network and compares its forms."""
    learning, judging = load()
    judging = Digits(judging.images[: plan.images], judging.labels[: plan.images])
    torch.manual_seed(0)
    print(f"{network}: in float")
    model = fit(NETWORKS[network](), learning, plan.epochs, RATE)
    if isinstance(model, Stack):
        unbalance(model)
    of_float = predict(model, judging.images)
    for target in TARGETS:
        for way, quantize in (("PTQ", after_training), ("QAT", in_training)):
            rounded, program = quantize(model, target, learning, plan.fine_epochs)
            run = run_program(program, judging.images, plan.board_images)
            answers = Answers(of_float, rounded(judging.images), *run)
            yield row(network, target, way, answers, judging)


def run_program(program: Program, images: Tensor, board_images: int) -> tuple[Tensor, Tensor]:
    """The answers of its C: on this computer to all images, on its board to the first ones."""
    with tempfile.TemporaryDirectory() as folder:
        project = program.firmware(Path(folder) / "digits")
        here = on_this_computer(project, images)
        if not has_boards():
            return here, here[:0]
        return here, on_board(project, TARGETS[program.target.name], images[:board_images])


def row(network: str, target: str, way: str, answers: Answers, judging: Digits) -> Row:
    """Counts."""
    same_class = answers.compiled.argmax(1) == answers.rounded.argmax(1)
    count = len(answers.board)
    return Row(
        network,
        target,
        way,
        accuracy(answers.of_float, judging),
        accuracy(answers.rounded, judging),
        accuracy(answers.compiled, judging),
        float(same_class.float().mean()),
        count,
        int((answers.board == answers.compiled[:count]).all(1).sum()),
    )


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    head = ("network", "target", "", "float", "rounded in PyTorch", "compiled C", "same class", "board")
    lines = [head, ("---",) * 3 + ("---:",) * 5]
    for found in rows:
        shares = (found.float_accuracy, found.rounded_accuracy, found.compiled_accuracy, found.same_class)
        board = f"{found.board_same_bytes} of {found.board_images}" if found.board_images else "–"
        lines.append((found.network, found.target, found.way, *(f"{share:.1%}" for share in shares), board))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Measures both networks and prints the table."""
    parser = argparse.ArgumentParser(description="Digits: float, PTQ, QAT, compiled C and emulated boards.")
    parser.add_argument("--quick", action="store_true", help="train less, judge by a third of the images")
    plan = QUICK if parser.parse_args(arguments).quick else WHOLE
    rows = [found for network in NETWORKS for found in measure(network, plan)]
    print(f"\nOf {plan.images} images that were not learned from:\n")
    print(table(rows))
    return rows


if __name__ == "__main__":
    main()

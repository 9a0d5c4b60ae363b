# SPDX-License-Identifier: Apache-2.0
"""Training for a chip: the model rounds while it learns.

model = pillion.prepare_qat(model, example_inputs, target="cortex-m55")
…                                                    # any loop of PyTorch
program = pillion.compile(model, example_inputs, target="cortex-m55")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pillion.targets import find_target

if TYPE_CHECKING:
    import torch

    from pillion.compiler import Inputs
    from pillion.importers.torch.train.qat import QatModule


def prepare_qat(model: torch.nn.Module, example_inputs: Inputs, target: str) -> QatModule:
    """A copy of a model for training: every tensor that the target holds in int8 is rounded on the way forward.

    The first axis of the example inputs is the batch, of any size unless the model's `forward` depends on it."""
    from pillion.importers.torch.train import qat

    return qat.prepare_qat(model, example_inputs, find_target(target).quantization)

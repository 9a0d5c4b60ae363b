# SPDX-License-Identifier: Apache-2.0
"""Code that messages name outside the table of reasons: each was found in the sources, and each compiles."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion

pytestmark = pytest.mark.torch

SOURCES = Path(pillion.__file__).parent / "importers" / "torch"
CODE = re.compile(r"\b(torch|F|nn|x|self)\.\w|\bx\[")
HELPS = ("help",)
REFUSALS = ("unsupported_call_error", "_unsupported_call_error")
"""Functions whose last argument is the way out."""


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, *self.parts)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 5, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.kept * 0.5 + x
        return self.kept


X = torch.linspace(-1, 2, 40).reshape(2, 5, 4)
IMAGE = torch.linspace(-1, 2, 70).reshape(1, 2, 5, 7)
MASK = torch.zeros(5, 5).index_fill(0, torch.tensor([2]), -torch.inf)
WORDS = torch.tensor([1, 2, 3, 0])

WRITTEN: dict[str, list[tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "torch.where(mask, x, 0.0) keeps the size; topk takes so many of the largest": [
        (Call(lambda x: torch.where(x > 0, x, 0.0)), (X,)),
        (Call(lambda x: torch.topk(x, 3).values), (X,)),
    ],
    "self.register_buffer(name, torch.zeros(...)) of the shape that forward writes": [(Remembering(), (X,))],
    "a smaller image, or F.interpolate to a size that is a multiple of the image's": [
        (Call(lambda x: F.interpolate(x, size=(10, 21))), (IMAGE,)),
    ],
    "write the result to a new tensor, for example with torch.cat": [
        (Call(lambda x: torch.cat([x[:, :2] + 1, x[:, 2:]], 1)), (X,)),
    ],
    "F.rrelu(x, training=False), or nn.LeakyReLU": [
        (Call(lambda x: F.rrelu(x, training=False)), (X,)),
        (nn.LeakyReLU(), (X,)),
    ],
    "torch.where chooses by a mask; index one axis after another": [
        (Call(lambda x, y: torch.where(y > 0, x, y)), (X, X.sign() + 0.5)),
        (Call(lambda x: x[:, [0, 2]][:, :, [3, 1]]), (X,)),
    ],
    "torch.where chooses by a mask; put several parts one after another": [
        (Call(lambda x: x.index_put((torch.tensor([1]),), x[0]).index_put((torch.tensor([0]),), x[0])), (X,)),
    ],
    "F.scaled_dot_product_attention answers zeros for such rows; a mask of -1e9 gives equal probabilities": [
        (Call(lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=MASK)), (X,)),
        (Call(lambda x: torch.softmax(x @ x.transpose(1, 2) + MASK.clamp(min=-1e9), -1) @ x), (X,)),
    ],
    "torch.where(condition, a, b) or torch.cond in place of `if`, or a decision in the code that calls the program": [
        (Call(lambda x: torch.where(x.mean() > 0, x, -x)), (X,)),
        (Call(lambda x: torch.cond(x.mean() > 0, lambda y: y + 1, lambda y: y - 1, (x,))), (X,)),
    ],
    "x.shape[1] in place of a size that is read from a tensor, as by int(lengths.max()): sizes are known when the program is compiled": [
        (Call(lambda x: x[:, torch.arange(x.shape[1] - 1)]), (X,)),
    ],
    "torch.bmm multiplies two computed tensors": [
        (Call(lambda x, y: torch.bmm(x, y.transpose(1, 2))), (X, X + 1)),
    ],
}
CALLS = {
    "does model(*example_inputs) run in Python? torch.export.export(model, example_inputs, strict=False) shows the whole story",
    "give inputs like those of torch.export.export, or export for these",
    "export the module with torch.export",
}
"""What is typed beside the model, not in it."""
OF_NAMES = ("leave the * out of forward's arguments", "):\n            return self.net(")
"""How words begin that are made of the names of a model's arguments: `tests/capture/test_capture.py` tries them."""


def helps(tree: ast.AST) -> Iterator[str]:
    """The ways out in a file: what is passed as `help`, and the last words of refusals."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        last = call.args[-1:] if name in REFUSALS else []
        for value in [*last, *(word.value for word in call.keywords if word.arg in HELPS)]:
            yield from (
                node.value
                for node in ast.walk(value)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            )


def test_all_code_that_messages_name_is_tried_here() -> None:
    files = [*SOURCES.glob("rewrite/**/*.py"), *SOURCES.glob("rows/*.py")]
    files += [
        SOURCES / f"{name}.py"
        for name in ("export", "buffers_as_states", "to_graph", "tensor_sizes", "input_types")
    ]
    found = {text for file in files for text in helps(ast.parse(file.read_text())) if CODE.search(text)}
    found = {text for text in found if not text.startswith(OF_NAMES)}
    assert found - CALLS == set(WRITTEN)


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", WRITTEN)
def test_suggested_replacements_compile(words: str) -> None:
    for model, inputs in WRITTEN[words]:
        program = pillion.compile(model.eval(), inputs, target="cortex-m33", progress=False)
        found = torch.as_tensor(program.run(*(x.numpy() for x in inputs))[0])
        with torch.no_grad():
            wanted = model(*inputs)
        scale = float(wanted.abs().max())
        assert float((found - wanted).abs().max()) <= 0.15 * scale + 0.02


def test_a_size_that_is_read_from_a_tensor_has_a_way_out_of_its_own() -> None:
    cut = Call(lambda x, lengths: x[:, torch.arange(int(lengths.max()))])
    with pytest.raises(pillion.PillionError, match="in place of a size that is read from a tensor"):
        pillion.compile(cut, (X, torch.tensor([4, 5])), target="cortex-m33", progress=False)

# SPDX-License-Identifier: Apache-2.0
"""Nets as people write them that compare, choose, and look up by numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A forward, its inputs and its layers."""

    forward: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    layers: Callable[[], tuple[nn.Module, ...]] = tuple
    agreement: float = 0.9
    """The part of whole numbers and booleans that are those of the float model, at least."""
    decibels: float = 25.0
    """The ratio of signal to noise of real results, at least."""


class Net(nn.Module):
    """A net of layers and a forward that is given them."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.layers = nn.ModuleList(case.layers())

    def forward(self, *inputs: Tensor) -> Any:
        return self.case.forward(*self.layers, *inputs)


def net(case: Case) -> tuple[nn.Module, tuple[Any, ...]]:
    """The net and its inputs, the same ones each time."""
    torch.manual_seed(5)
    return Net(case).eval(), case.inputs()


def rows(count: int = 3, size: int = 10) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(count, size),)


def images(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(shape or (2, 4, 7, 5)),)


def tokens(*shape: int, dtype: torch.dtype = torch.int64) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(0, 20, shape or (2, 7), dtype=dtype),)


def linear(out: int = 8, size: int = 10) -> Callable[[], tuple[nn.Module, ...]]:
    return lambda: (nn.Linear(size, out),)


def conv() -> tuple[nn.Module, ...]:
    return (nn.Conv2d(4, 6, 3, padding=1),)


def words() -> tuple[nn.Module, ...]:
    return nn.Embedding(20, 8), nn.Linear(8, 5)


def _padded(embed: nn.Module, head: nn.Module, t: Tensor) -> Tensor:
    """The mean of the words that are there; 0 is none."""
    mask = (t != 0).float().unsqueeze(-1)
    return head((embed(t) * mask).sum(1) * 0.2)


def _positions(embed: nn.Module, places: nn.Module, head: nn.Module, t: Tensor) -> Tensor:
    return head(embed(t) + places(torch.arange(t.shape[1])))


CASES: dict[str, Case] = {
    # --- inputs that are numbers
    "embedding": Case(lambda e, f, t: f(e(t).mean(1)), tokens(), words),
    "embedding of int32": Case(lambda e, f, t: f(e(t)), tokens(3, dtype=torch.int32), words),
    "embedding of a batch of one": Case(lambda e, f, t: f(e(t).flatten(1)[:, :8]), tokens(1, 5), words),
    "embedding with positions": Case(
        _positions, tokens(), lambda: (nn.Embedding(20, 8), nn.Embedding(7, 8), nn.Linear(8, 5))
    ),
    "embedding then convolution": Case(
        lambda e, c, t: c(e(t).transpose(1, 2)).relu().amax(2),
        tokens(2, 9),
        lambda: (nn.Embedding(20, 8), nn.Conv1d(8, 6, 3)),
    ),
    "embedding without padding": Case(_padded, tokens(), words),
    "embedding of bytes": Case(lambda e, f, t: f(e(t.long())), tokens(2, 4, dtype=torch.uint8), words),
    "bag of words": Case(lambda bag, t: bag(t), tokens(), lambda: (nn.EmbeddingBag(20, 8, mode="mean"),)),
    "one hot": Case(lambda f, t: f(F.one_hot(t, 20).float()), tokens(), linear(5, 20)),
    "numbers and reals": Case(
        lambda e, f, t, x: f(torch.cat([e(t), x], 1)),
        lambda: (torch.randint(0, 20, (3,)), torch.randn(3, 4)),
        lambda: (nn.Embedding(20, 8), nn.Linear(12, 5)),
    ),
    "numbers as reals": Case(lambda f, t: f(t.float()), tokens(), linear(5, 7)),
    "image of bytes": Case(
        lambda c, x: c(x.float() / 255).relu().mean((2, 3)),
        lambda: (torch.randint(0, 256, (1, 4, 7, 5), dtype=torch.uint8),),
        conv,
    ),
    "mask as an input": Case(
        lambda f, x, mask: torch.where(mask, f(x), 0.0),
        lambda: (torch.randn(3, 10), torch.rand(3, 8) > 0.5),
        linear(),
    ),
    "part of the tokens": Case(lambda e, f, t: f(e(t[:, 1:4])).sum(1), tokens(), words),
    # --- choosing
    "argmax": Case(lambda f, x: f(x).argmax(1), rows(), linear()),
    "argmax of all": Case(lambda f, x: f(x).argmax(), rows(), linear()),
    "argmin kept": Case(lambda c, x: c(x).argmin(1, keepdim=True), images(), conv),
    "segmentation": Case(lambda c, x: c(x).argmax(1), images(), conv, agreement=0.85),
    "max with places": Case(lambda f, x: f(x).max(1), rows(), linear()),
    "min of images": Case(lambda c, x: c(x).min(dim=2), images(), conv, agreement=0.85),
    "topk": Case(lambda f, x: f(x).topk(3), rows(), linear(), agreement=0.75),
    "smallest of channels": Case(lambda c, x: c(x).topk(2, dim=1, largest=False)[0], images(), conv),
    "sort": Case(lambda f, x: f(x).sort(descending=True)[0], rows(), linear()),
    "argsort": Case(lambda f, x: f(x).argsort(1)[:, :1], rows(9), linear()),
    "threshold": Case(lambda f, x: f(x).sigmoid() > 0.5, rows(), linear()),
    "threshold as reals": Case(lambda f, x: (f(x) > 0).float(), rows(), linear(), decibels=10.0),
    "gate by comparison": Case(lambda f, x: f(x) * (x[:, :8] >= 0.1), rows(), linear()),
    "comparison of two": Case(lambda f, g, x: f(x) > g(x), rows(9), lambda: (*linear()(), *linear()())),
    "where": Case(lambda f, x: torch.where(x[:, :8] > 0.5, f(x), x[:, 2:] * 2), rows(), linear()),
    "where of numbers": Case(lambda f, x: torch.where(f(x) < 0, 0.1, 0.9), rows(), linear(), decibels=10.0),
    "masked fill": Case(lambda f, x: f(x).masked_fill(x[:, :8] < 0, -0.5), rows(), linear()),
    "several conditions": Case(
        lambda f, x: torch.where((x[:, :8] > -0.5) & (x[:, :8] < 0.5) | ~(f(x) > 0), f(x), 1.0),
        rows(),
        linear(),
        decibels=15.0,
    ),
    "exclusive or": Case(lambda f, x: torch.logical_xor(f(x) > 0, x[:, :8] > 0), rows(9), linear()),
    "any and all": Case(
        lambda f, x: ((f(x) > 0).any(1), (f(x) > -1).all(1, keepdim=True)), rows(9), linear(), agreement=0.8
    ),
    "equal to the largest": Case(
        lambda c, x: c(x) * (c(x) == F.max_pool2d(c(x), 3, 1, 1)), images(), conv, decibels=10.0
    ),
    # --- indexing
    "index with a list": Case(lambda c, x: c(x)[:, [0, 2, 5]], images(), conv),
    "index of a column": Case(lambda f, x: f(x)[:, [3]], rows(), linear()),
    "index of two axes": Case(lambda c, x: c(x)[:, :, [0, 2, 4], [1, 0, 3]], images(), conv),
    "index of negative numbers": Case(lambda f, x: f(x)[:, [-1, 0, -3]], rows(), linear()),
    "index select": Case(lambda f, x: f(x).index_select(1, torch.tensor([4, 4, 0])), rows(), linear()),
    "gather of constants": Case(
        lambda f, x: f(x).gather(1, torch.tensor([[0, 5], [1, 1], [7, 2]])), rows(), linear()
    ),
    "gather of the best": Case(
        lambda f, g, x: g(x).gather(1, f(x).argmax(1, keepdim=True)),
        rows(),
        lambda: (*linear()(), *linear()()),
    ),
    "row by number": Case(
        lambda f, x, t: f(x)[:, t],
        lambda: (torch.randn(3, 10), torch.tensor([2, 0, 7])),
        linear(),
    ),
    "flip and roll": Case(lambda c, x: c(x).flip(3).roll((1, -2), (2, 3)), images(), conv),
    "unfold of an axis": Case(lambda f, x: f(x).unfold(1, 4, 2).mean(2), rows(), linear()),
    "unfold of images": Case(lambda c, x: F.unfold(c(x), (3, 2), padding=1, stride=2), images(), conv),
    "running sum": Case(lambda f, x: f(x).cumsum(1), rows(), linear()),
    "running sum of an image": Case(lambda c, x: c(x).cumsum(2), images(), conv),
    "slice scatter": Case(lambda f, x: torch.slice_scatter(x, f(x)[:, :3], 1, 2, 5), rows(), linear()),
    "slice scatter with a step": Case(
        lambda f, x: torch.slice_scatter(x, f(x)[:, :3], 1, 1, 6, 2), rows(), linear()
    ),
    "select scatter": Case(lambda f, x: torch.select_scatter(x, f(x)[:, 0], 1, 4), rows(), linear()),
    "index put": Case(
        lambda f, x: torch.index_put(x, (torch.tensor([0, 2]), torch.tensor([1, 9])), f(x)[0, :2]),
        rows(),
        linear(),
    ),
    "zeros like": Case(lambda f, x: torch.cat([f(x), torch.zeros_like(x)], 1), rows(), linear()),
    "ones and new": Case(
        lambda f, x: (
            f(x) + torch.ones_like(x)[:, :8] * 0.5 + x.new_zeros(8) + torch.full_like(x, 0.25)[:, 2:]
        ),
        rows(),
        linear(),
    ),
}


def _written(f: nn.Module, x: Tensor) -> Tensor:
    out = torch.zeros(3, 12)
    out[:, 2:7] = f(x)[:, :5]
    out[1] = x[0, 0]
    out[:, :2] += x[:, :2]
    out[0, 8:] = 0.5
    return out


def _written_images(c: nn.Module, x: Tensor) -> Tensor:
    y = c(x)
    padded = y.new_zeros(2, 6, 9, 7)
    padded[:, :, 1:-1, 1:-1] = y
    return padded


CASES["written into zeros"] = Case(_written, rows(), linear())
CASES["written into a border"] = Case(_written_images, images(), conv)
CASES["written with a step"] = Case(lambda f, x: _every_other(f(x)), rows(), linear())


def _every_other(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, ::2] = x[:, ::2]
    return y


class Attention(nn.Module):
    """One head over words, of which those that are 0 are none."""

    def __init__(self, mask: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.mask = mask
        self.embed = nn.Embedding(20, 16)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, t: Tensor) -> Tensor:
        x = self.embed(t)
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.mask(q @ k.transpose(1, 2) / 2, t).softmax(-1) @ v


MASKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "filled": lambda s, t: s.masked_fill((t == 0)[:, None, :], -1e9),
    "filled with infinity": lambda s, t: s.masked_fill((t == 0).unsqueeze(1), float("-inf")),
    "chosen": lambda s, t: torch.where((t != 0)[:, None, :], s, torch.finfo(torch.float32).min),
    "added": lambda s, t: s + (1.0 - (t > 0).float())[:, None, :] * -10000.0,
    "added infinity": lambda s, t: s + torch.where(t[:, None, :] > 0, 0.0, -torch.inf),
}
for _name, _mask in MASKS.items():
    CASES[f"attention, {_name}"] = Case(
        lambda a, t: a(t),
        lambda: (torch.tensor([[3, 7, 0, 0, 0], [1, 0, 9, 19, 4]]),),
        lambda m=_mask: (Attention(m),),
    )


class Heads(nn.Module):
    """PyTorch's own attention, with words that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, t: Tensor) -> Tensor:
        x = self.embed(t)
        return self.attend(x, x, x, key_padding_mask=t == 0, need_weights=False)[0]


def _scaled_dot_product(a: Attention, t: Tensor) -> Tensor:
    x = a.embed(t)
    return F.scaled_dot_product_attention(a.q(x), a.k(x), a.v(x), attn_mask=(t != 0)[:, None, :])


SENTENCES = lambda: (torch.tensor([[3, 7, 0, 0, 0], [1, 0, 9, 19, 4]]),)  # noqa: E731 - one of many
CASES["attention, heads"] = Case(lambda h, t: h(t), SENTENCES, lambda: (Heads(),))
CASES["attention, scaled dot product"] = Case(
    _scaled_dot_product, SENTENCES, lambda: (Attention(MASKS["filled"]),)
)

CASES["log softmax"] = Case(lambda f, x: F.log_softmax(f(x), 1), rows(), linear())
CASES["log softmax of channels"] = Case(lambda c, x: c(x).log_softmax(1), images(), conv)
CASES["negative ones are zero"] = Case(lambda f, x: _clamped(f(x)), rows(), linear())
CASES["rows by a mask"] = Case(lambda f, x: _without_rows(f(x), x[:, 0] > 0), rows(5), linear())
CASES["a triangle"] = Case(lambda f, x: (f(x) @ f(x).T).tril(1), rows(), linear())
CASES["take along"] = Case(
    lambda f, x: torch.take_along_dim(x, f(x).argmax(1, keepdim=True), 1), rows(), linear()
)
CASES["median"] = Case(lambda f, x: f(x).median(1)[0], rows(), linear(7))
CASES["third smallest"] = Case(lambda c, x: c(x).kthvalue(3, 1)[0], images(), conv)
CASES["mean of what is there"] = Case(
    lambda e, t: (e(t) * (t != 0).unsqueeze(-1)).sum(1) / (t != 0).sum(1, keepdim=True).clamp(min=1),
    tokens(),
    lambda: (nn.Embedding(20, 8),),
)


def _clamped(x: Tensor) -> Tensor:
    y = x.clone()
    y[y < 0] = 0
    return y


def _without_rows(x: Tensor, mask: Tensor) -> Tensor:
    x = x * 1.5
    x[mask] = -0.25
    return x

# SPDX-License-Identifier: Apache-2.0
"""Products of tensors, transposed convolution, resizing, slopes, divisions and reductions on tensors that lie
in any order: against PyTorch's converted model to one step per op, and views and products exactly, in
float."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion import passes
from pillion.errors import PillionError
from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.importers.torch.to_graph import import_program
from pillion.importers.torch.views import match_axis_runs, reshape_logical
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops import BatchMatmul, Concat, Reshape, ResizeNearest, Softmax, Transpose
from pillion.passes.convert_to_integer import float_ops
from torch_oracle import compare

pytestmark = [pytest.mark.torch, pytest.mark.slow]

BATCH, CHANNELS, HEIGHT, WIDTH = 2, 3, 11, 7


class AfterConv(nn.Module):
    """A convolution (5 channels out of 3), then `body`."""

    def __init__(self, body: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.side, self.third = (nn.Conv2d(CHANNELS, 5, k, padding=k // 2) for k in (3, 1, 3))
        self.after = nn.Conv2d(5, 4, 1)
        self.up = nn.ConvTranspose2d(5, 7, (3, 2), stride=(2, 1), padding=(1, 0), output_padding=(1, 0))
        self.up_without_bias = nn.ConvTranspose2d(5, 1, 4, 2, 1, bias=False)
        self.dilated = nn.ConvTranspose2d(5, 3, 3, 2, dilation=(2, 3))
        self.up1d = nn.ConvTranspose1d(5, 4, 3, 2, 1, 1)
        self.slopes = nn.Parameter(torch.tensor([0.1, -0.3, 0.25, 1.5, 0.0]))
        self.slope = nn.PReLU(init=0.2)
        self.matrix = nn.Parameter(torch.randn(WIDTH, 13))
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, self.conv(x), self.side(x), self.third(x))


def attention(m: AfterConv, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """conv → view → bmm → softmax → bmm → view → conv over pixels."""
    n, c, h, w = x.shape
    q, k, v = (t.reshape(n, c, h * w) for t in (x, y, z))
    weights = torch.softmax(torch.bmm(q.transpose(1, 2), k) * 0.2, -1)
    return m.after(torch.bmm(v, weights.transpose(1, 2)).reshape(n, c, h, w))


def attention_of_channels(m: AfterConv, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    n, c, h, w = x.shape
    weights = torch.softmax(torch.bmm(x.flatten(2), y.flatten(2).permute(0, 2, 1)) / 9.0, -1)
    return m.after(torch.bmm(weights, z.flatten(2)).view(n, c, h, w))


def scaled_attention(m: AfterConv, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, y, z)


BODIES: dict[str, Callable[..., Tensor]] = {
    "attention": attention,
    "attention_of_channels": attention_of_channels,
    "scaled_dot_product_attention": scaled_attention,
    "bmm_of_images": lambda m, x, y, z: torch.bmm(x.flatten(0, 1), y.flatten(0, 1).transpose(1, 2)),
    "bmm_adj_both": lambda m, x, y, z: torch.bmm(
        x.flatten(2).transpose(1, 2), y.flatten(1, 2)[:, :5].repeat(1, 1, 2)
    ),
    "matmul_4d": lambda m, x, y, z: x @ y.transpose(-1, -2),
    "matmul_4d_swapped": lambda m, x, y, z: x.permute(0, 2, 1, 3) @ y.permute(0, 2, 3, 1),
    "matmul_constant": lambda m, x, y, z: x @ m.matrix,
    "conv_transpose": lambda m, x, y, z: m.up(x),
    "conv_transpose_to_one_channel": lambda m, x, y, z: m.up_without_bias(x + y),
    "conv_transpose_dilated": lambda m, x, y, z: m.dilated(x),
    "conv_transpose_relu": lambda m, x, y, z: F.relu(m.up(x)),
    "conv_transpose_1d": lambda m, x, y, z: m.up1d(x.mean(2)),
    "nearest": lambda m, x, y, z: F.interpolate(x, scale_factor=2),
    "nearest_to_size": lambda m, x, y, z: F.interpolate(x, size=(5, 17)),
    "nearest_then_conv": lambda m, x, y, z: m.after(F.interpolate(x, scale_factor=(3, 2)) + 0.5),
    "bilinear": lambda m, x, y, z: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear_aligned": lambda m, x, y, z: F.interpolate(
        x, size=(21, 25), mode="bilinear", align_corners=True
    ),
    "bilinear_smaller": lambda m, x, y, z: F.interpolate(x, size=(4, 6), mode="bilinear"),
    "prelu": lambda m, x, y, z: F.prelu(x, m.slopes),
    "prelu_of_plain": lambda m, x, y, z: F.prelu(x.mean(3).contiguous(), m.slopes),
    "prelu_of_permuted": lambda m, x, y, z: F.prelu(x.permute(3, 1, 0, 2), m.slopes),
    "prelu_of_rows": lambda m, x, y, z: F.prelu(x.mean((2, 3)), m.slopes),
    "prelu_one_slope": lambda m, x, y, z: m.slope(x),
    "div": lambda m, x, y, z: x / (torch.sigmoid(y) + 0.5),
    "div_broadcast": lambda m, x, y, z: x / (torch.sigmoid(y[:, :, :1, :1]) + 0.5),
    "div_by_constant": lambda m, x, y, z: x / 3.7,
    "sum_all": lambda m, x, y, z: x.sum(),
    "sum_of_two": lambda m, x, y, z: x.sum((1, 3), keepdim=True),
    "amax_of_two": lambda m, x, y, z: x.amax((0, 2)),
    "amin_all": lambda m, x, y, z: x.amin(),
    "max_all": lambda m, x, y, z: x.max(),
    "min_all": lambda m, x, y, z: x.min(),
    "min_keep": lambda m, x, y, z: x.min(-1, keepdim=True)[0],
    "max_and_its_place": lambda m, x, y, z: x.max(1).values + x.max(1)[0],
    "flatten_of_neighbours": lambda m, x, y, z: x.flatten(2).transpose(1, 2).softmax(-1),
    "pixel_shuffle": lambda m, x, y, z: F.pixel_shuffle(torch.cat([x, y], 1)[:, :8], 2),
    "flip": lambda m, x, y, z: torch.flip(x, (-1, 1)),
    "flip_of_nothing": lambda m, x, y, z: torch.flip(m.after(x), ()),
    "channel_shuffle": lambda m, x, y, z: m.after(F.channel_shuffle(torch.cat([x, y[:, :1]], 1), 3)[:, 1:]),
}
for _dim in range(4):
    BODIES[f"sum_{_dim}"] = lambda m, x, y, z, d=_dim: x.sum(d)
    BODIES[f"flip_{_dim}"] = lambda m, x, y, z, d=_dim: x.flip(d)
    BODIES[f"amax_{_dim}"] = lambda m, x, y, z, d=_dim: x.amax(d)
    BODIES[f"amin_{_dim}_keep"] = lambda m, x, y, z, d=_dim: x.amin(d, keepdim=True)
    BODIES[f"max_{_dim}"] = lambda m, x, y, z, d=_dim: x.max(d).values


def graph_of(module: nn.Module, *inputs: Tensor) -> tuple[torch.fx.GraphModule, Graph]:
    quantized = ptq(module.eval(), inputs, [inputs])
    return quantized.graph_module, passes.run(import_program(quantized.graph_module, "net"))


def image() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)


@pytest.mark.turns(8)
@pytest.mark.parametrize("name", BODIES)
def test_ops_are_exact_on_channels_last_tensors(name: str) -> None:
    x = image()
    module, graph = graph_of(AfterConv(BODIES[name]), x)
    assert float_ops(graph) == []
    comparison = compare(module, graph, x)
    assert comparison.largest, "nothing was compared"
    assert max(comparison.largest.values()) <= 1
    ours, theirs = graph.reference(x.numpy())[0], module(x)
    theirs = theirs[0] if isinstance(theirs, (tuple, list)) else theirs
    assert ours.shape == tuple(theirs.shape)
    step = graph.producers[graph.outputs[0]].x.scale  # type: ignore[attr-defined]  # a dequantize
    assert abs(ours - theirs.detach().numpy()).max() <= 4.001 * step


def moves(graph: Graph) -> int:
    return sum(isinstance(op, Transpose) for op in graph)


def test_attention_over_pixels_needs_two_transposes() -> None:
    _, graph = graph_of(AfterConv(attention), image())
    products = [op for op in graph if isinstance(op, BatchMatmul)]
    assert [(op.adj_x, op.adj_y) for op in products] == [(False, True), (False, False)]
    assert moves(graph) == 2, "the input and the result"


def test_tokens_of_an_image_lie_where_they_are() -> None:
    _, graph = graph_of(AfterConv(BODIES["flatten_of_neighbours"]), image())
    assert moves(graph) == 1
    assert isinstance(graph.ops[-2], Softmax)


@pytest.mark.parametrize(("batch", "rows", "depth", "columns"), [(2, 3, 5, 7), (1, 13, 11, 2), (5, 1, 7, 3)])
def test_attention_of_primes_is_near_to_pytorch(batch: int, rows: int, depth: int, columns: int) -> None:
    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return torch.softmax(q @ k.transpose(1, 2), -1) @ v

    torch.manual_seed(3)
    inputs = (torch.randn(batch, rows, depth), torch.randn(batch, 7, depth), torch.randn(batch, 7, columns))
    module, graph = graph_of(Attention(), *inputs)
    assert [op.kind for op in graph if isinstance(op, (BatchMatmul, Softmax))] == [
        "batch_matmul",
        "softmax",
        "batch_matmul",
    ]
    assert max(compare(module, graph, *inputs).largest.values()) <= 1
    ours = graph.reference(*(x.numpy() for x in inputs))[0]
    assert abs(ours - Attention()(*inputs).numpy()).max() < 0.1


# --- exactly, in float --------------------------------------------------------------------------------------


def evaluate(graph: Graph, *inputs: Array) -> Array:
    """Products and movements of float tensors."""
    values: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
    for op in graph.ops:
        operands = [values.get(v, v.data) for v in op.operands]
        match op:
            case BatchMatmul():
                a, b = (
                    x.swapaxes(1, 2) if adj else x
                    for x, adj in zip(operands, (op.adj_x, op.adj_y), strict=True)
                )
                values[op.y] = a.astype(np.float64) @ b.astype(np.float64)
            case Transpose() | Reshape() | Concat():
                values[op.y] = op.reference(Arithmetic.CMSIS_NN, *operands)
            case _:
                raise AssertionError(op.kind)
    return values[graph.outputs[0]]


class Product(nn.Module):
    def __init__(self, left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        a = a if self.left is None else a.permute(self.left)
        return torch.ops.aten.matmul(a, b if self.right is None else b.permute(self.right))


PRODUCTS = [
    ((2, 3, 5), (2, 5, 7), None, None),
    ((2, 5, 3), (2, 7, 5), (0, 2, 1), (0, 2, 1)),
    ((2, 5, 3), (2, 5, 7), (0, 2, 1), None),
    ((5, 2, 3), (2, 7, 5), (1, 2, 0), (0, 2, 1)),
    ((2, 3, 5, 7), (2, 3, 7, 11), None, None),
    ((2, 5, 3, 7), (2, 11, 3, 7), (0, 2, 1, 3), (0, 2, 3, 1)),
    ((2, 3, 5, 7), (7, 11), None, None),
    ((2, 3, 5, 7), (1, 1, 7, 11), None, None),
    ((5, 7), (7, 11), None, None),
    ((2, 3, 5), (5,), None, None),
    ((5,), (5, 3), None, None),
]


@pytest.mark.parametrize(("left", "right", "first", "second"), PRODUCTS, ids=str)
def test_matmul_of_any_rank(
    left: tuple[int, ...], right: tuple[int, ...], first: object, second: object
) -> None:
    inputs = (torch.randn(left), torch.randn(right))
    module = Product(first, second).eval()  # type: ignore[arg-type]  # whatever a case gives
    program = rewrite_for_quantization(torch.export.export(module, inputs).module(check_guards=False))
    graph = import_program(program, "product")
    found = evaluate(graph, *(x.numpy() for x in inputs))
    assert found.shape == tuple(module(*inputs).shape)
    assert abs(found - module(*inputs).numpy()).max() < 1e-5


def test_matmul_that_repeats_batches_is_right() -> None:
    inputs = (torch.randn(2, 3, 5, 7), torch.randn(2, 1, 7, 11))
    module, graph = graph_of(Product(None, None), *inputs)
    assert max(compare(module, graph, *inputs).largest.values()) <= 1


SHAPES = [
    (2, 3, 5, 7),
    (2, 3, 1, 4),
    (6, 35),
    (2, 3, 35),
    (1, 6, 5, 7),
    (210,),
    (2, 1, 105),
    (30, 7),
    (2, 15, 7),
    (1, 1, 24),
]


@pytest.mark.parametrize("before", SHAPES, ids=str)
def test_views_of_every_order_see_logical_order(before: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for after in (shape for shape in SHAPES if np.prod(shape) == np.prod(before)):
        order = tuple(rng.permutation(len(before)).tolist())
        builder, value = (
            Builder(UniqueNames()),
            Value("x", TensorType(tuple(before[a] for a in order), DType.FLOAT32)),
        )
        placed = reshape_logical(builder, LayoutValue(value, order), after)
        x = rng.standard_normal(before).astype(np.float32)
        found = evaluate(Graph("g", (value,), tuple(builder.ops), (placed.value,)), x.transpose(order))
        assert np.array_equal(found, x.reshape(after).transpose(placed.order)), (before, order, after)
        assert sum(isinstance(op, Transpose) for op in builder.ops) <= 1


def test_axes_of_views_are_matched_in_the_smallest_runs() -> None:
    runs = match_axis_runs((2, 1, 3, 4, 5), (6, 2, 2, 1, 5))
    assert [(run.before, run.after) for run in runs] == [((0, 2), (0,)), ((3,), (1, 2)), ((4,), (4,))]


# --- refusals -----------------------------------------------------------------------------------------------


def import_float(module: nn.Module, x: Tensor) -> Graph:
    return import_program(
        rewrite_for_quantization(torch.export.export(module.eval(), (x,)).module(check_guards=False)), "net"
    )


class Differences(nn.Module):
    """In how many elements the rows of a matrix differ."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, x, 0)


class Products(nn.Module):
    """The products of all that comes before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logcumsumexp(x, 1)


@pytest.mark.parametrize(
    ("module", "shape", "what"),
    [(Differences(), (1, 5, 7), "cdist"), (Products(), (1, 5, 7), "logcumsumexp")],
    ids=["cdist", "logcumsumexp"],
)
def test_refusals_say_why(module: nn.Module, shape: tuple[int, ...], what: str) -> None:
    with pytest.raises(PillionError, match=what) as refusal:
        import_float(module, torch.randn(shape))
    assert refusal.value.rule
    assert refusal.value.help


@pytest.mark.parametrize(
    ("before", "after"), [((3, 5), (7, 11)), ((11, 7), (5, 3)), ((1, 9), (4, 100)), ((31, 17), (63, 64))]
)
def test_nearest_pixels_equal_pytorch(before: tuple[int, int], after: tuple[int, int]) -> None:
    x = torch.arange(before[0] * before[1]).reshape(1, 1, *before).float()
    graph = import_float(nn.Upsample(size=after), x)
    op = next(op for op in graph if isinstance(op, ResizeNearest))
    found = op.reference(Arithmetic.CMSIS_NN, x.numpy().transpose(0, 2, 3, 1))
    assert np.array_equal(found.transpose(0, 3, 1, 2), F.interpolate(x, size=after).numpy())

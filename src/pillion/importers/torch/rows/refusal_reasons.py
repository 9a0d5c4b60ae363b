# SPDX-License-Identifier: Apache-2.0
"""Why operators have no int8 form, and code to write instead; a test compiles that code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.predispatch import _add_batch_dim, _remove_batch_dim

from pillion.importers.torch.fx_nodes import aten, torch_operators


@dataclass(frozen=True)
class RefusalReason:
    """Why an operator is refused. `instead` is an expression of `x`, of `y` for a second tensor, and of named
    constants."""

    why: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.why}; instead: {self.instead}" if self.instead else self.why


WITH_CONSTANT_OPERAND = (
    *torch_operators("atan2 floor_divide heaviside hypot logaddexp logaddexp2 polygamma special_xlog1py"),
    *torch_operators("copysign fmod ldexp remainder xlogy", "Tensor"),
    *(aten.div.Tensor_mode, aten.pow.Scalar, aten.pow.Tensor_Tensor, aten.remainder.Scalar_Tensor),
)
"""Functions of two numbers that become tables if one operand is a single constant."""

NEEDS_CONSTANT = "a table needs one of its operands to be one number, the same for all elements"
COMPLEX = "it has no form for complex numbers"
LOSS = "a loss is for training: leave it outside the model"
LARGE = RefusalReason(
    "a layer of its size would have more than 2^21 weights", "torch.fft.rfft(x[..., :512]).abs()"
)
SPECTRUM = RefusalReason(
    "its window is computed, or it has more than 2^21 weights",
    "F.conv1d(x, cosine_windows, stride=8), F.conv1d(x, sine_windows, stride=8)",
)
DIFFERENT = RefusalReason(
    "norm 0 counts the elements that differ", "(x[:, :, None] != y[:, None]).float().sum(-1)"
)
VMAP = RefusalReason(
    "torch.vmap runs a function on slices that torch.export does not see",
    "torch.stack([row.sum() for row in x])",
)
WHILE_LOOP = RefusalReason("how often it runs depends on data", "torch.where(x.sum() < 9.0, x + x, x)")
PYTHON_NUMBER = RefusalReason(
    "it makes a number of Python of what a tensor holds, which is known only when the program runs; keep it a tensor",
    "torch.zeros_like(x) + y.amax()",
)

RANDOM = RefusalReason("it draws numbers at random: hand them over as an input")
DRAWS = (
    *torch_operators(
        "bernoulli exponential multinomial normal_functional rand rand_like randint randn randn_like"
    ),
    *(aten.normal.Tensor_Tensor, aten.uniform.default),
)

REASONS: Mapping[Any, RefusalReason] = {
    **dict.fromkeys(WITH_CONSTANT_OPERAND, RefusalReason(NEEDS_CONSTANT)),
    aten.pow.Tensor_Tensor: RefusalReason(NEEDS_CONSTANT, "torch.exp(y * torch.log(x))"),
    aten.xlogy.Tensor: RefusalReason(NEEDS_CONSTANT, "x * torch.log(y)"),
    **dict.fromkeys((aten._cdist_forward.default, aten.cdist.default), DIFFERENT),
    **dict.fromkeys((aten._fft_c2c.default, aten._fft_c2r.default, aten._fft_r2c.default), LARGE),
    **dict.fromkeys(
        torch_operators("_embedding_bag _embedding_bag_forward_only"),
        RefusalReason(
            "bags hold as many words each, and begin at known places; elsewhere nn.Embedding, then a sum or mean over the words"
        ),
    ),
    aten.cumprod.default: RefusalReason(
        "it multiplies more than 64 numbers", "torch.exp(torch.cumsum(torch.log(x), 1))"
    ),
    aten.fractional_max_pool2d.default: RefusalReason(
        "its windows are drawn at random", "F.adaptive_max_pool2d(x, (3, 3))"
    ),
    **dict.fromkeys(
        torch_operators("grid_sampler grid_sampler_2d"),
        RefusalReason(
            "it reads pixels at places that are computed", "F.interpolate(x, size=(9, 7), mode='bilinear')"
        ),
    ),
    aten.istft.default: RefusalReason(
        "its window is computed, or frames leave gaps, or it has more than 2^21 weights"
    ),
    aten.linalg_vector_norm.default: RefusalReason("norm 0 counts elements", "(x != 0).float().sum(1)"),
    aten.max_unpool2d.default: RefusalReason(
        "its places are not those of a max pool of this model whose windows lie side by side",
        "F.interpolate(x, scale_factor=2)",
    ),
    aten.mse_loss.default: RefusalReason(LOSS),
    **dict.fromkeys(DRAWS, RANDOM),
    aten.native_batch_norm.default: RefusalReason(
        "it has no running statistics and normalizes by those of the batch", "F.instance_norm(x)"
    ),
    **dict.fromkeys(
        (aten.prod.default, aten.prod.dim_int),
        RefusalReason("it multiplies more than 64 numbers", "torch.exp(torch.log(x).sum(1))"),
    ),
    **dict.fromkeys(
        (aten.scatter.src, aten.scatter.value, aten.scatter_add.default),
        RefusalReason(
            "it writes to more than 32 places that are computed",
            "torch.where(x >= x.amax(1, keepdim=True), 1.0, x)",
        ),
    ),
    aten.to.dtype: RefusalReason(
        "it makes whole numbers of real ones", "(x.unsqueeze(-1) >= torch.arange(-3, 5)).sum(-1) - 4"
    ),
    aten.scaled_dot_product_attention.default: RefusalReason(
        "its mask is computed as booleans, or it drops out",
        "torch.softmax(x @ x.transpose(-2, -1) + torch.where(y > 0, 0.0, -30.0), -1) @ x",
    ),
    **dict.fromkeys((aten.stft.center, aten.stft.default), SPECTRUM),
    aten.view_as_complex.default: RefusalReason(
        "complex numbers are no outputs of a program", "torch.view_as_real(torch.complex(x, y))"
    ),
    torch.ops.higher_order.while_loop: WHILE_LOOP,
    **dict.fromkeys((aten._local_scalar_dense.default, aten.full.default), PYTHON_NUMBER),
    **dict.fromkeys((_add_batch_dim, _remove_batch_dim), VMAP),
}
"""Why operators without a row stay in float."""

WRITES = "it writes into a tensor that others see; write the result to a new one, for example with torch.cat"
"""Reason for a call that writes to its operand."""

MOVES = "it moves values between float ops"
"""Reason for a move between float ops."""

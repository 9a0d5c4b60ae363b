/* SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "limits.h"
#include "operators.h"
#include "tensor.h"

namespace pillion {
namespace {

constexpr ssize_t kMostAxes = 4;

void transpose(Call& call) {
  const Tensor& x = call.tensor();
  const Integers order = call.integers(0);
  Tensor& y = call.out();
  const ssize_t rank = x.dim();
  want(rank >= 1 && rank <= kMostAxes && y.dim() == rank && static_cast<ssize_t>(order.size()) == rank, "rank 1 to 4, as many axes as order");
  want(is_contiguous(x) && is_contiguous(y), "input and result are contiguous");
  want(rank != 2 || (order[0] == 1 && order[1] == 0), "two axes are always exchanged");
  if (rank == 2) {
    want_matrix(x.size(0), x.size(1));
  }
  int64_t step[kMostAxes], size[kMostAxes], axes = 0;
  for (ssize_t axis = 0; axis < rank; axis++) {
    const int64_t from = order[axis];
    want(from >= 0 && from < rank && !(axes >> from & 1), "the order is a permutation");
    axes |= 1 << from;
    size[axis] = x.size(from), step[axis] = 1;
    want(y.size(axis) == size[axis], "the result has the sizes of the order");
    for (ssize_t inner = from + 1; inner < rank; inner++) {
      step[axis] *= x.size(inner);
    }
  }
  const int8_t* from = int8(x);
  int8_t* to = int8_out(y);
  for (ssize_t i = 0; i < y.numel(); i++) {
    int64_t at = 0, rest = i;
    for (ssize_t axis = rank - 1; axis >= 0; rest /= size[axis--]) {
      at += rest % size[axis] * step[axis];
    }
    to[i] = from[at];
  }
}

/* Sizes in the order of memory, as four. */
void memory_sizes(const Tensor& t, bool image, int64_t sizes[kMostAxes]) {
  want(image ? is_image(t) : is_contiguous(t), "contiguous, or an image");
  static const int kImage[] = {0, 2, 3, 1};
  for (ssize_t axis = 0; axis < kMostAxes; axis++) {
    const ssize_t own = axis - (kMostAxes - t.dim());
    sizes[axis] = own < 0 ? 1 : t.size(image ? kImage[own] : own);
  }
}

void pad(Call& call) {
  const Tensor& x = call.tensor();
  const Integers before = call.integers(kMostAxes), after = call.integers(kMostAxes);
  const int32_t value = int8_level(call.integer(), "what is filled in");
  Tensor& y = call.out();
  want(x.dim() >= 1 && x.dim() <= kMostAxes && y.dim() == x.dim(), "rank 1 to 4");
  int64_t in[kMostAxes], out[kMostAxes];
  /* The library takes a contiguous tensor with sizes of 1 in the right places for an image, and then pads other axes. */
  memory_sizes(x, is_image(x), in);
  memory_sizes(y, is_image(x), out);
  for (ssize_t axis = 0; axis < kMostAxes; axis++) {
    want(before[axis] >= 0 && after[axis] >= 0, "paddings are not negative");
    want(out[axis] == before[axis] + in[axis] + after[axis], is_image(x) ? "the result has the padded sizes of an image, for which the operand is taken" : "the result has the padded sizes");
  }
  const int8_t* from = int8(x);
  int8_t* to = int8_out(y);
  std::memset(to, value, y.numel());
  for (int64_t n = 0; n < in[0]; n++) {
    for (int64_t h = 0; h < in[1]; h++) {
      for (int64_t w = 0; w < in[2]; w++, from += in[3]) {
        const int64_t row = ((n + before[0]) * out[1] + h + before[1]) * out[2] + w + before[2];
        std::memcpy(to + row * out[3] + before[3], from, in[3]);
      }
    }
  }
}

}  // namespace

const Operator kTranspose = {"cortex_m::transpose.out", transpose};
const Operator kPad = {"cortex_m::pad.out", pad};

}  // namespace pillion

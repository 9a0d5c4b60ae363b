/* SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <vector>

#include "operators.h"
#include "tensor.h"

namespace pillion {
namespace {

struct Pool {
  Image x, y;
  Integers kernel, stride, padding;

  /* Calls `window(y index, channel, rows, columns)` with the part of each window that lies inside the image. */
  template <typename Finish, typename Start, typename Step>
  void run(const int8_t* from, int8_t* to, Start start, Step step, Finish finish) const {
    want(x.n == y.n && x.c == y.c, "batch and channels stay");
    for (int32_t n = 0; n < y.n; n++, from += static_cast<size_t>(x.h) * x.w * x.c) {
      for (int32_t oy = 0; oy < y.h; oy++) {
        for (int32_t ox = 0; ox < y.w; ox++) {
          const int64_t top = oy * stride[0] - padding[0], left = ox * stride[1] - padding[1];
          const int64_t bottom = std::min<int64_t>(top + kernel[0], x.h), right = std::min<int64_t>(left + kernel[1], x.w);
          for (int32_t c = 0; c < y.c; c++) {
            int32_t held = start, count = 0;
            for (int64_t iy = std::max<int64_t>(top, 0); iy < bottom; iy++) {
              for (int64_t ix = std::max<int64_t>(left, 0); ix < right; ix++, count++) {
                held = step(held, from[(iy * x.w + ix) * x.c + c]);
              }
            }
            want(count > 0, "every window sees the image");
            *to++ = finish(held, count);
          }
        }
      }
    }
  }
};

/* Windows along one axis, as the runtime's newer kernels check them. */
int64_t windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
  const int64_t room = size + 2 * padding - kernel;
  int64_t count = room / stride + 1 + (ceil_mode && room % stride != 0);
  return ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
}

/* Since ExecuTorch 1.5 one argument tells whether the number of windows is rounded up. */
void avg_pool2d(Call& call) {
  constexpr bool tells_mode = RUNTIME_MINOR >= 5;
  want(call.arguments() == (tells_mode ? 9 : 8), tells_mode ? "since ExecuTorch 1.5 it has 9 arguments: --runtime 1.5" : "in ExecuTorch 1.4 it has 8 arguments: --runtime 1.4");
  const Tensor& x = call.tensor();
  const Integers kernel = call.integers(2), stride = call.integers(2), padding = call.integers(2);
  const bool ceil_mode = tells_mode && call.flag();
  call.integer(), call.integer(), call.integer();
  call.tensor();
  Tensor& y = call.out();
  const Pool pool = {Image(x, call.nhwc), Image(y, call.nhwc), kernel, stride, padding};
  want(!tells_mode || pool.y.h == windows(pool.x.h, kernel[0], stride[0], padding[0], ceil_mode), "the result has the height of its mode");
  want(!tells_mode || pool.y.w == windows(pool.x.w, kernel[1], stride[1], padding[1], ceil_mode), "the result has the width of its mode");
  pool.run(
      int8(x), int8_out(y), 0, [](int32_t sum, int8_t x) { return sum + x; },
      [](int32_t sum, int32_t count) {
        return static_cast<int8_t>(sum > 0 ? (sum + count / 2) / count : (sum - count / 2) / count);
      });
}

void max_pool2d(Call& call) {
  const Tensor& x = call.tensor();
  const Integers kernel = call.integers(2), stride = call.integers(2), padding = call.integers(2), dilation = call.integers(2);
  const bool ceil_mode = call.flag();
  const int32_t in_zp = int8_level(call.integer(), "a zero point"), out_zp = int8_level(call.integer(), "a zero point");
  const int32_t low = call.int32(), high = call.int32();
  Tensor& y = call.out();
  want(dilation[0] == 1 && dilation[1] == 1 && !ceil_mode, "no dilation, no ceil mode");
  want(in_zp == out_zp, "input and result have one zero point");
  const Pool pool = {Image(x, call.nhwc), Image(y, call.nhwc), kernel, stride, padding};
  pool.run(
      int8(x), int8_out(y), -128, [](int32_t largest, int8_t x) { return std::max<int32_t>(largest, x); },
      [=](int32_t largest, int32_t) { return static_cast<int8_t>(clamp(largest, low, high)); });
}

/* exp(a) in Q0.31 for a not above 0 in Q5.26. */
int32_t exp_of_negative(int32_t a) {
  static const int32_t kSteps[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  if (a == 0) {
    return INT32_MAX;
  }
  const int32_t quarter = 1 << 24, rest = (a & (quarter - 1)) - quarter;
  const int32_t x = static_cast<int32_t>(static_cast<uint32_t>(rest) << 5) + (1 << 28);
  const int32_t x2 = multiply_high(x, x), x3 = multiply_high(x2, x), x4 = shift_right(multiply_high(x2, x2), 2);
  const int32_t tail = shift_right(multiply_high(x4 + x3, 715827883) + x2, 1);
  int32_t power = 1895147668 + multiply_high(1895147668, x + tail);
  for (int32_t k = 0; k < 7; k++) {
    if (((rest - a) >> (24 + k)) & 1) {
      power = multiply_high(power, kSteps[k]);
    }
  }
  return power;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31, by Newton's method. */
int32_t one_over_one_plus(int32_t a) {
  const int32_t half = static_cast<int32_t>((static_cast<int64_t>(a) + (INT64_C(1) << 31)) >> 1);
  int32_t x = 1515870810 + multiply_high(half, -1010580540);
  for (int32_t i = 0; i < 3; i++) {
    const int32_t error = (1 << 29) - multiply_high(x, half);
    x = static_cast<int32_t>(static_cast<uint32_t>(x) + (static_cast<uint32_t>(multiply_high(x, error)) << 2));
  }
  return static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(x) << 1, INT32_MAX));
}

/* From this sum of a row on the last shift is one of 32 places or more, which the library does not survive. */
constexpr int64_t kTooLargeSum = INT64_C(1) << 28;

void softmax_row(const int8_t* x, int8_t* y, ssize_t count, int32_t mantissa, int32_t shift, int32_t smallest) {
  const int32_t largest = *std::max_element(x, x + count);
  std::vector<int32_t> powers(count);
  int64_t total = 0;
  for (ssize_t i = 0; i < count; i++) {
    const int32_t difference = x[i] - largest;
    if (difference >= smallest) {
      powers[i] = exp_of_negative(multiply_high(static_cast<int32_t>(static_cast<uint32_t>(difference) << shift), mantissa));
      total += shift_right(powers[i], 12);
    }
  }
  want(total < kTooLargeSum, "the exponentials of a row add up to less than 512 times the largest one");
  const int32_t zeros = __builtin_clz(static_cast<uint32_t>(total));
  const int32_t inverse = one_over_one_plus(static_cast<int32_t>((static_cast<uint32_t>(total) << zeros) - (UINT32_C(1) << 31)));
  for (ssize_t i = 0; i < count; i++) {
    const int32_t rounded = shift_right(multiply_high(inverse, powers[i]), 12 - zeros + 23) - 128;
    y[i] = static_cast<int8_t>(x[i] - largest < smallest ? -128 : clamp(rounded, -128, 127));
  }
}

void softmax(Call& call) {
  const Tensor& x = call.tensor();
  const int64_t dim = call.integer();
  call.integer();
  const int64_t out_zp = call.integer();
  const int32_t mantissa = call.int32(), shift = shift_of(call.int32()), smallest = call.int32();
  Tensor& y = call.out();
  want(x.dim() > 0 && (dim == -1 || dim == x.dim() - 1), "softmax is over the last axis");
  want(is_contiguous(x) && same_sizes(x, y), "input and result are contiguous, of one shape");
  want(out_zp == -128 && shift >= 0, "the result has zero point -128, the shift is not negative");
  const ssize_t count = x.size(x.dim() - 1);
  for (ssize_t row = 0; count > 0 && row < x.numel() / count; row++) {
    softmax_row(int8(x) + row * count, int8_out(y) + row * count, count, mantissa, shift, smallest);
  }
}

}  // namespace

const Operator kAvgPool2d = {"cortex_m::quantized_avg_pool2d.out", avg_pool2d};
const Operator kMaxPool2d = {"cortex_m::quantized_max_pool2d.out", max_pool2d};
const Operator kAvgPool2dNhwc = {"cortex_m::quantized_avg_pool2d_nhwc.out", avg_pool2d, true};
const Operator kMaxPool2dNhwc = {"cortex_m::quantized_max_pool2d_nhwc.out", max_pool2d, true};
const Operator kSoftmax = {"cortex_m::softmax.out", softmax};

}  // namespace pillion

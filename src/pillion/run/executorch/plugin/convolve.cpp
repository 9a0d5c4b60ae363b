/* SPDX-License-Identifier: Apache-2.0
 * Convolutions and matrix products. */
#include <algorithm>
#include <vector>

#include "limits.h"
#include "operators.h"
#include "tensor.h"

namespace pillion {
namespace {

/* The arguments of both convolutions, in order. */
struct Convolution {
  const Tensor& x;
  const Tensor& weights;
  const Tensor* bias;
  Integers stride, padding, dilation;
  int64_t multiplier = 0;
  int32_t in_offset, out_offset;
  const Tensor &mantissas, &shifts;
  int32_t low, high;
  const Tensor& scratch;
  Tensor& y;
  const Image from, to;

  Convolution(Call& call, bool depthwise)
      : x(call.tensor()),
        weights(call.tensor()),
        bias(call.optional()),
        stride(call.integers(2)),
        padding(call.integers(2)),
        dilation(call.integers(2)),
        multiplier(depthwise ? call.integer() : 0),
        in_offset(call.int32()),
        out_offset(call.int32()),
        mantissas(call.tensor()),
        shifts(call.tensor()),
        low(call.int32()),
        high(call.int32()),
        scratch(call.tensor()),
        y(call.out()),
        from(x, call.nhwc),
        to(y, call.nhwc) {
    want(weights.dim() == 4 && is_contiguous(weights), "weights are contiguous, of rank 4");
    want(scratch.scalar_type() == ScalarType::Byte && scratch.dim() == 1, "scratch is a vector of bytes");
    int8_level(-in_offset, "minus the input offset");
  }
};

/* The inputs of a window: [groups][taps][in of a group], minus the zero point, 0 outside the image. */
void gather(const Convolution& c, const Image& x, const int8_t* from, int32_t oy, int32_t ox, int32_t kernel_h, int32_t kernel_w,
            int32_t groups, std::vector<int16_t>& seen) {
  const int32_t inner = x.c / groups, taps = kernel_h * kernel_w;
  std::fill(seen.begin(), seen.end(), int16_t{0});
  for (int32_t tap = 0; tap < taps; tap++) {
    const int64_t iy = oy * c.stride[0] - c.padding[0] + tap / kernel_w * c.dilation[0];
    const int64_t ix = ox * c.stride[1] - c.padding[1] + tap % kernel_w * c.dilation[1];
    if (iy < 0 || iy >= x.h || ix < 0 || ix >= x.w) {
      continue;
    }
    const int8_t* pixel = from + (iy * x.w + ix) * x.c;
    for (int32_t group = 0; group < groups; group++) {
      int16_t* to = &seen[(static_cast<size_t>(group) * taps + tap) * inner];
      for (int32_t i = 0; i < inner; i++) {
        to[i] = static_cast<int16_t>(pixel[group * inner + i] + c.in_offset);
      }
    }
  }
}

int32_t dot(const int16_t* x, const int8_t* weights, int32_t count) {
  int32_t sum = 0;
  for (int32_t i = 0; i < count; i++) {
    sum += x[i] * weights[i];
  }
  return sum;
}

/* Weights are [out][taps][in of a group]. */
void run(const Convolution& c, const int8_t* weights, int32_t kernel_h, int32_t kernel_w, int32_t groups) {
  const Image &x = c.from, &y = c.to;
  want(x.n == y.n, "as many images come out as go in");
  want_sizes({x.h, x.w, x.c, y.h, y.w, y.c, kernel_h, kernel_w, c.stride[0], c.stride[1], c.padding[0], c.padding[1], c.dilation[0], c.dilation[1]});
  const std::vector<int32_t> bias = bias_of(c.bias, y.c);
  const int32_t *mantissa = int32s(c.mantissas, y.c), *shift = int32s(c.shifts, y.c);
  const int32_t window = kernel_h * kernel_w * (x.c / groups), outer = y.c / groups;
  std::vector<int16_t> seen(static_cast<size_t>(window) * groups);
  const int8_t* from = int8(c.x);
  int8_t* to = int8_out(c.y);
  for (int32_t n = 0; n < y.n; n++, from += static_cast<size_t>(x.h) * x.w * x.c) {
    for (int32_t pixel = 0; pixel < y.h * y.w; pixel++, to += y.c) {
      gather(c, x, from, pixel / y.w, pixel % y.w, kernel_h, kernel_w, groups, seen);
      for (int32_t o = 0; o < y.c; o++) {
        const int16_t* own = &seen[static_cast<size_t>(o / outer) * window];
        const int32_t sum = bias[o] + dot(own, weights + static_cast<size_t>(o) * window, window);
        to[o] = level(requantize(sum, mantissa[o], shift[o]), c.out_offset, c.low, c.high);
      }
    }
  }
}

/* Whether the library has a special kernel for these windows: single adjacent pixels. */
bool is_pointwise(const Convolution& c, int32_t kernel_h, int32_t kernel_w, int32_t groups) {
  const bool plain = c.padding[0] == 0 && c.padding[1] == 0 && c.dilation[0] == 1 && c.dilation[1] == 1;
  return plain && kernel_h == 1 && kernel_w == 1 && groups == 1;
}

/* The limits of the kernels for pixels and for rows, which the library chooses by the sizes. */
void want_kernel(const Convolution& c, int32_t kernel_h, int32_t kernel_w, int32_t groups) {
  const Image &x = c.from, &y = c.to;
  if (is_pointwise(c, kernel_h, kernel_w, groups)) {
    const bool all = c.stride[0] != 1 || c.stride[1] != 1 || (x.h == y.h && x.w == y.w);
    want(all, "windows of one pixel give as many pixels as there are");
  } else if (x.h == 1 && kernel_h == 1 && c.dilation[1] == 1 && groups == 1 && c.stride[1] * x.c % 4 == 0) {
    want_row_padding(x.w, y.w, kernel_w, c.stride[1], c.padding[1]);
  }
}

void conv2d(Call& call) {
  const Convolution c(call, false);
  const int32_t in = c.from.c, out = c.to.c, group_in = c.weights.size(3);
  want(c.weights.size(0) == out && group_in > 0 && in % group_in == 0, "weights are [out, h, w, in / groups]");
  const int32_t groups = in / group_in;
  want(out % groups == 0, "groups divide the output channels");
  /* The library on the chip adds to a null pointer here. */
  want(groups == 1 || c.bias != nullptr, "a grouped convolution has a bias");
  want_kernel(c, c.weights.size(1), c.weights.size(2), groups);
  run(c, int8(c.weights), c.weights.size(1), c.weights.size(2), groups);
}

void depthwise_conv2d(Call& call) {
  const Convolution c(call, true);
  const Image &x = c.from, &y = c.to;
  want(x.n == 1, "a depthwise convolution is of one image");
  want(c.weights.size(0) == 1 && c.weights.size(3) == y.c, "weights are [1, h, w, out]");
  want(y.c == x.c * c.multiplier, "output channels are input channels times the multiplier");
  if (x.c == 1 && y.c > 1) {
    want_kernel(c, c.weights.size(1), c.weights.size(2), 1);
  }
  const int32_t taps = c.weights.size(1) * c.weights.size(2);
  std::vector<int8_t> weights(static_cast<size_t>(y.c) * taps);
  for (int32_t o = 0; o < y.c; o++) {
    for (int32_t tap = 0; tap < taps; tap++) {
      weights[static_cast<size_t>(o) * taps + tap] = int8(c.weights)[static_cast<size_t>(tap) * y.c + o];
    }
  }
  run(c, weights.data(), c.weights.size(1), c.weights.size(2), x.c);
}

/* Every input pixel adds to a window of the result. */
void transpose_conv2d(Call& call) {
  const Tensor &x = call.tensor(), &weights = call.tensor();
  const Tensor* given = call.optional();
  const Integers stride = call.integers(2), padding = call.integers(2), more = call.integers(2), dilation = call.integers(2);
  const int32_t in_offset = call.int32(), out_offset = call.int32();
  const Tensor &mantissas = call.tensor(), &shifts = call.tensor();
  const int32_t low = call.int32(), high = call.int32();
  call.tensor();
  call.tensor();
  Tensor& y = call.out();
  const Image in(x, call.nhwc), out(y, call.nhwc);
  want(more[0] == 0 && more[1] == 0 && dilation[0] == 1 && dilation[1] == 1, "no output padding, no dilation");
  want(weights.dim() == 4 && weights.size(0) == out.c && weights.size(3) == in.c, "weights are [out, h, w, in]");
  const std::vector<int32_t> bias = bias_of(given, out.c);
  const int32_t *mantissa = int32s(mantissas, out.c), *shift = int32s(shifts, out.c);
  const int32_t kernel_h = weights.size(1), kernel_w = weights.size(2);
  const int64_t kernel[] = {kernel_h, kernel_w};
  want_sizes({in.h, in.w, in.c, out.h, out.w, out.c, kernel_h, kernel_w, stride[0], stride[1], padding[0], padding[1]});
  want_rows_of_sums(Integers(kernel, 2), stride, padding, in.c);
  const int8_t *from = int8(x), *w = int8(weights);
  for (int32_t n = 0; n < in.n; n++) {
    std::vector<int32_t> sums(static_cast<size_t>(out.h) * out.w * out.c);
    for (int32_t iy = 0; iy < in.h; iy++) {
      for (int32_t ix = 0; ix < in.w; ix++, from += in.c) {
        for (int32_t ky = 0; ky < kernel_h; ky++) {
          for (int32_t kx = 0; kx < kernel_w; kx++) {
            const int64_t oy = iy * stride[0] + ky - padding[0], ox = ix * stride[1] + kx - padding[1];
            if (oy < 0 || oy >= out.h || ox < 0 || ox >= out.w) {
              continue;
            }
            int32_t* sum = &sums[(oy * out.w + ox) * out.c];
            for (int32_t o = 0; o < out.c; o++) {
              const int8_t* tap = w + ((static_cast<int64_t>(o) * kernel_h + ky) * kernel_w + kx) * in.c;
              for (int32_t c = 0; c < in.c; c++) {
                sum[o] += (from[c] + in_offset) * tap[c];
              }
            }
          }
        }
      }
    }
    int8_t* to = int8_out(y) + static_cast<size_t>(n) * sums.size();
    for (size_t i = 0; i < sums.size(); i++) {
      const size_t o = i % out.c;
      to[i] = level(requantize(sums[i] + bias[o], mantissa[o], shift[o]), out_offset, low, high);
    }
  }
}

/* One of bias and kernel_sum is given: kernel_sum is the bias with the zero point's share in it. */
void linear(Call& call) {
  const Tensor &x = call.tensor(), &weights = call.tensor();
  const Tensor *bias = call.optional(), *kernel_sum = call.optional();
  const int32_t in_offset = call.int32(), filter_offset = call.int32(), out_offset = call.int32();
  const Integers mantissas = call.integers(1), shifts = call.integers(1);
  const int32_t high = call.int32(), low = call.int32();
  Tensor& y = call.out();
  want(weights.dim() == 2 && is_contiguous(weights), "weights are [out, in]");
  want(is_contiguous(x) && is_contiguous(y), "input and result are contiguous");
  const int32_t out = weights.size(0), in = weights.size(1);
  want(filter_offset == 0, "weights have zero point 0");
  want(in > 0 && x.numel() % in == 0 && y.numel() == x.numel() / in * out, "the last axis is that of the weights");
  want(bias == nullptr || kernel_sum == nullptr, "bias or kernel_sum, not both");
  const std::vector<int32_t> sums = bias_of(bias ? bias : kernel_sum, out);
  const int32_t mantissa = check_32(mantissas[0]), shift = shift_of(check_32(shifts[0]));
  const int32_t offset = kernel_sum ? 0 : in_offset;
  std::vector<int16_t> row(in);
  const int8_t* from = int8(x);
  int8_t* to = int8_out(y);
  for (ssize_t done = 0; done < x.numel(); done += in, from += in) {
    for (int32_t i = 0; i < in; i++) {
      row[i] = static_cast<int16_t>(from[i] + offset);
    }
    for (int32_t o = 0; o < out; o++) {
      const int32_t sum = sums[o] + dot(row.data(), int8(weights) + static_cast<size_t>(o) * in, in);
      *to++ = level(requantize(sum, mantissa, shift), out_offset, low, high);
    }
  }
}

/* The zero points arrive with their sign turned, whatever their names say. */
void batch_matmul(Call& call) {
  const Tensor& a = call.tensor();
  const int32_t a_offset = call.int32();
  const Tensor& b = call.tensor();
  const int32_t b_offset = call.int32(), out_zp = call.int32(), mantissa = call.int32(), shift = shift_of(call.int32());
  call.tensor();
  Tensor& y = call.out();
  want(a.dim() == 3 && b.dim() == 3 && y.dim() == 3, "tensors are of rank 3");
  want(is_contiguous(a) && is_contiguous(b) && is_contiguous(y), "tensors are contiguous");
  const int32_t batches = a.size(0), rows = a.size(1), depth = a.size(2), columns = b.size(1);
  want(b.size(0) == batches && b.size(2) == depth, "[B, M, K] and [B, N, K]");
  want(y.size(0) == batches && y.size(1) == rows && y.size(2) == columns, "the result is [B, M, N]");
  const int8_t *first = int8(a), *second = int8(b);
  int8_t* to = int8_out(y);
  for (int32_t n = 0; n < batches; n++, second += static_cast<size_t>(columns) * depth) {
    for (int32_t row = 0; row < rows; row++, first += depth) {
      for (int32_t column = 0; column < columns; column++) {
        int32_t sum = 0;
        for (int32_t k = 0; k < depth; k++) {
          sum += (first[k] + a_offset) * (second[static_cast<size_t>(column) * depth + k] + b_offset);
        }
        *to++ = level(requantize(sum, mantissa, shift), out_zp, -128, 127);
      }
    }
  }
}

}  // namespace

const Operator kConv2d = {"cortex_m::quantized_conv2d.out", conv2d};
const Operator kDepthwiseConv2d = {"cortex_m::quantized_depthwise_conv2d.out", depthwise_conv2d};
const Operator kTransposeConv2d = {"cortex_m::quantized_transpose_conv2d.out", transpose_conv2d};
const Operator kConv2dNhwc = {"cortex_m::quantized_conv2d_nhwc.out", conv2d, true};
const Operator kDepthwiseConv2dNhwc = {"cortex_m::quantized_depthwise_conv2d_nhwc.out", depthwise_conv2d, true};
const Operator kTransposeConv2dNhwc = {"cortex_m::quantized_transpose_conv2d_nhwc.out", transpose_conv2d, true};
const Operator kLinear = {"cortex_m::quantized_linear.out", linear};
const Operator kBatchMatmul = {"cortex_m::quantized_batch_matmul.out", batch_matmul};

}  // namespace pillion

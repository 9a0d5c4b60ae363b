/* SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "limits.h"
#include "operators.h"
#include "tensor.h"

namespace pillion {
namespace {

/* How two operands are repeated over the result: element i of the result is made from a[i % a_count] and b[i % b_count],
 * which is right for equal tensors and for one that has only the channels of an image. */
struct Pair {
  const int8_t *a, *b;
  int64_t a_count, b_count, count;

  Pair(const Tensor& first, const Tensor& second, const Tensor& y)
      : a(int8(first)), b(int8(second)), a_count(first.numel()), b_count(second.numel()), count(y.numel()) {
    const bool equal = same_sizes(first, second) && same_sizes(first, y);
    want(equal || over_channels(first, second, y), "shapes are equal, or one operand has only the channels of the other");
  }

 private:
  static bool over_channels(const Tensor& first, const Tensor& second, const Tensor& y) {
    if (!is_image(first) || !is_image(second) || !is_image(y) || first.size(1) != second.size(1)) {
      return false;
    }
    const bool repeats_second = second.numel() == second.size(1) && same_sizes(first, y);
    const bool repeats_first = first.numel() == first.size(1) && same_sizes(second, y);
    return repeats_first || repeats_second;
  }
};

/* An operand of an addition: brought to the common scale with 20 bits of headroom. */
struct Rescaled {
  const Tensor& x;
  int32_t zero_point, mantissa, shift;

  explicit Rescaled(Call& call)
      : x(call.tensor()), zero_point(int8_level(call.integer(), "a zero point")), mantissa(call.int32()), shift(shift_of(call.int32())) {}

  int32_t operator()(int8_t q) const {
    return requantize(static_cast<int32_t>((q - zero_point) * (1 << 20)), mantissa, shift);
  }
};

void add(Call& call) {
  const Rescaled a(call), b(call);
  const int32_t out_zp = int8_level(call.integer(), "a zero point"), mantissa = call.int32(), shift = shift_of(call.int32());
  const int32_t low = call.int32(), high = call.int32();
  Tensor& y = call.out();
  const Pair pair(a.x, b.x, y);
  int8_t* to = int8_out(y);
  for (int64_t i = 0; i < pair.count; i++) {
    const int32_t sum = a(pair.a[i % pair.a_count]) + b(pair.b[i % pair.b_count]);
    to[i] = level(requantize(sum, mantissa, shift), out_zp, low, high);
  }
}

void mul(Call& call) {
  const Tensor& a = call.tensor();
  const int32_t a_zp = int8_level(call.integer(), "a zero point");
  const Tensor& b = call.tensor();
  const int32_t b_zp = int8_level(call.integer(), "a zero point"), out_zp = int8_level(call.integer(), "a zero point");
  const int32_t mantissa = call.int32(), shift = shift_of(call.int32());
  Tensor& y = call.out();
  const Pair pair(a, b, y);
  int8_t* to = int8_out(y);
  for (int64_t i = 0; i < pair.count; i++) {
    const int32_t product = (pair.a[i % pair.a_count] - a_zp) * (pair.b[i % pair.b_count] - b_zp);
    to[i] = level(requantize(product, mantissa, shift), out_zp, -128, 127);
  }
}

void div(Call& call) {
  const Tensor& a = call.tensor();
  const int32_t a_zp = call.int32();
  const Tensor& b = call.tensor();
  const int32_t b_zp = call.int32(), out_zp = call.int32();
  const float scale = static_cast<float>(call.real());
  Tensor& y = call.out();
  want(same_sizes(a, b) && same_sizes(a, y), "shapes are equal");
  const int8_t *first = int8(a), *second = int8(b);
  int8_t* to = int8_out(y);
  for (ssize_t i = 0; i < y.numel(); i++) {
    const float divisor = static_cast<float>(second[i] - b_zp);
    const float quotient = divisor == 0 ? 0 : static_cast<float>(first[i] - a_zp) / divisor;
    const float rounded = std::round(quotient * scale) + static_cast<float>(out_zp);
    to[i] = static_cast<int8_t>(std::fmin(std::fmax(rounded, -128.0f), 127.0f));
  }
}

void activation(Call& call) {
  const Tensor &x = call.tensor(), &table = call.tensor();
  Tensor& y = call.out();
  want(table.numel() == 256, "a table has 256 entries");
  want(same_sizes(x, y), "input and result have one shape");
  const int8_t *from = int8(x), *entries = int8(table);
  int8_t* to = int8_out(y);
  for (ssize_t i = 0; i < y.numel(); i++) {
    to[i] = entries[from[i] + 128];
  }
}

/* Where the operand's element for the result's element i lies: axes of size 1 are repeated. */
int64_t source(const Tensor& x, const Tensor& y, int64_t i) {
  int64_t at = 0, step = 1;
  for (ssize_t axis = 1; axis <= y.dim(); axis++, i /= y.size(y.dim() - axis + 1)) {
    const int64_t size = axis <= x.dim() ? x.size(x.dim() - axis) : 1;
    at += size == 1 ? 0 : i % y.size(y.dim() - axis) * step;
    step *= size;
  }
  return at;
}

bool repeats_to(const Tensor& x, const Tensor& y) {
  for (ssize_t axis = 1; axis <= x.dim(); axis++) {
    const int64_t size = x.size(x.dim() - axis);
    if (axis > y.dim() || (size != 1 && size != y.size(y.dim() - axis))) {
      return false;
    }
  }
  return true;
}

/* Whether the library steps twice from one row to the next of an operand that has one number for each row. */
bool goes_astray(const Tensor& x, const Tensor& y) {
  const auto size = [](const Tensor& t, ssize_t from_last) { return from_last < t.dim() ? t.size(t.dim() - 1 - from_last) : 1; };
  return size(x, 0) == 1 && size(x, 1) == 1 && size(x, 2) > 1 && size(y, 1) > 1;
}

template <typename Choose>
void extremum(Call& call, Choose choose) {
  const Tensor &a = call.tensor(), &b = call.tensor();
  Tensor& y = call.out();
  const int8_t *first = int8(a), *second = int8(b);
  int8_t* to = int8_out(y);
  /* A single number is repeated rightly whatever the layout. */
  const bool repeats_a = a.numel() == 1, repeats_b = b.numel() == 1;
  if ((repeats_a || same_sizes(a, y)) && (repeats_b || same_sizes(b, y))) {
    for (ssize_t i = 0; i < y.numel(); i++) {
      to[i] = choose(first[repeats_a ? 0 : i], second[repeats_b ? 0 : i]);
    }
    return;
  }
  want(is_contiguous(a) && is_contiguous(b) && is_contiguous(y) && y.dim() <= 4, "repeated operands are contiguous, of rank 4 or less");
  want(repeats_to(a, y) && repeats_to(b, y), "shapes are equal or repeat to the result's");
  want(!goes_astray(a, y) && !goes_astray(b, y), "no operand is repeated along the last two axes and not along the one before");
  for (ssize_t i = 0; i < y.numel(); i++) {
    to[i] = choose(first[source(a, y, i)], second[source(b, y, i)]);
  }
}

void minimum(Call& call) {
  extremum(call, [](int8_t a, int8_t b) { return a < b ? a : b; });
}

void maximum(Call& call) {
  extremum(call, [](int8_t a, int8_t b) { return a > b ? a : b; });
}

/* Scale, zero point and bounds of the integers at a border. */
struct Border {
  float scale;
  int32_t zero_point, low, high;

  Border(Call& call, const Tensor&) : scale(static_cast<float>(call.real())), zero_point(call.int32()), low(call.int32()), high(call.int32()) {
    want(call.int32() == static_cast<int32_t>(ScalarType::Char), "the integers are int8");
    want(low >= -128 && high <= 127 && zero_point >= low && zero_point <= high, "the zero point lies inside the bounds, these in int8");
  }
};

/* The library narrows steps without a look: to 16 bits with Helium, to 32 elsewhere. */
int32_t narrowed(double nearest, int32_t zero_point) {
  if (std::isnan(nearest)) {
    return 0;
  }
  const double most = for_helium ? INT16_MAX : INT32_MAX;
  want(std::fabs(nearest) + std::abs(zero_point) <= most, "an input is at most " + std::to_string(static_cast<int64_t>(most)) + " steps from zero, which the library narrows without a look");
  return static_cast<int32_t>(nearest);
}

void quantize(Call& call) {
  const Tensor& x = call.tensor();
  const Border border(call, x);
  Tensor& y = call.out();
  want(x.scalar_type() == ScalarType::Float && same_sizes(x, y), "float32 in, the same shape out");
  const float* from = x.const_data_ptr<float>();
  const float inverse = 1.0f / border.scale;
  int8_t* to = int8_out(y);
  /* Helium takes sixteen at once and rounds their products once, so that ties are others than where products are rounded first. */
  const ssize_t fused = for_helium ? y.numel() / 16 * 16 : 0;
  for (ssize_t i = 0; i < y.numel(); i++) {
    const double product = i < fused ? static_cast<double>(from[i]) * inverse : static_cast<double>(from[i] * inverse);
    to[i] = level(narrowed(std::nearbyint(product), border.zero_point), border.zero_point, border.low, border.high);
  }
}

void dequantize(Call& call) {
  const Tensor& x = call.tensor();
  const Border border(call, x);
  Tensor& y = call.out();
  want(y.scalar_type() == ScalarType::Float && same_sizes(x, y), "float32 out, of the same shape");
  const int8_t* from = int8(x);
  float* to = y.mutable_data_ptr<float>();
  for (ssize_t i = 0; i < y.numel(); i++) {
    to[i] = static_cast<float>(from[i] - border.zero_point) * border.scale;
  }
}

}  // namespace

const Operator kAdd = {"cortex_m::quantized_add.out", add};
const Operator kMul = {"cortex_m::quantized_mul.out", mul};
const Operator kDiv = {"cortex_m::quantized_div.out", div};
const Operator kActivation = {"cortex_m::quantized_activation.out", activation};
const Operator kMinimum = {"cortex_m::minimum.out", minimum};
const Operator kMaximum = {"cortex_m::maximum.out", maximum};
const Operator kQuantize = {"cortex_m::quantize_per_tensor.out", quantize};
const Operator kDequantize = {"cortex_m::dequantize_per_tensor.out", dequantize};

}  // namespace pillion

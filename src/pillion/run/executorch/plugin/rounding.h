/* SPDX-License-Identifier: Apache-2.0
 * The fixed-point rounding that the operators are defined by. It stands here once more, written without a look at the
 * kernel library, because this runtime judges that one. */
#pragma once

#include <cstdint>

namespace pillion {

/* a * b / 2^31, rounded half up. */
inline int32_t multiply_high(int64_t a, int64_t b) {
  return static_cast<int32_t>((a * b + (INT64_C(1) << 30)) >> 31);
}

/* x / 2^places, rounded half away from zero. */
inline int32_t shift_right(int32_t x, int32_t places) {
  const int64_t half = places > 0 ? INT64_C(1) << (places - 1) : 0;
  return static_cast<int32_t>((x + half - (x < 0 && places > 0)) >> places);
}

/* x * 2^shift * mantissa / 2^31: a left shift wraps in 32 bits, a right shift comes after the product. */
inline int32_t requantize(int32_t x, int32_t mantissa, int32_t shift) {
  const int32_t left = shift > 0 ? shift : 0;
  const int32_t moved = static_cast<int32_t>(static_cast<uint32_t>(x) << left);
  return shift_right(multiply_high(moved, mantissa), left - shift);
}

inline int32_t clamp(int64_t x, int32_t low, int32_t high) {
  return static_cast<int32_t>(x < low ? low : x > high ? high : x);
}

/* The level for a value, the zero point added, inside the bounds. */
inline int8_t level(int32_t x, int32_t zero_point, int32_t low, int32_t high) {
  return static_cast<int8_t>(clamp(static_cast<int64_t>(x) + zero_point, low, high));
}

}  // namespace pillion

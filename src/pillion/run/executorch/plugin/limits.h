/* SPDX-License-Identifier: Apache-2.0
 * The limits within which the library on the chip is correct. Beyond them it returns wrong bytes, or writes outside its memory; here
 * they are conditions. Programs on both sides of each limit confirmed it in the library itself. */
#pragma once

#include <initializer_list>

#include "call.h"

namespace pillion {

/* Whether the program is for a core with Helium; its kernels have limits of their own. */
extern bool for_helium;

/* The library holds sizes in 16 bits. */
constexpr int64_t kLargestSide = 65535;

inline void want_sizes(std::initializer_list<int64_t> sizes) {
  for (const int64_t size : sizes) {
    want(size <= kLargestSide, "sizes are at most 65535, which the library holds in 16 bits, and this one is " + std::to_string(size));
  }
}

/* Helium transposes eight rows at once, at offsets of 16 bits. */
inline void want_matrix(int64_t rows, int64_t columns) {
  want_sizes({rows, columns});
  const int64_t last_row = ((rows < 8 ? rows : 8) - 1) * columns;
  want(!for_helium || last_row <= kLargestSide, "Helium reads at offsets of 16 bits, and eight rows reach " + std::to_string(last_row));
}

/* Along one axis of a row, for Helium's kernel for images of one row: it splits the padding by itself. */
inline void want_row_padding(int64_t size, int64_t result, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t excess = (result - 1) * stride + kernel - size;
  want(!for_helium || 2 * padding + excess % 2 == excess, "Helium's kernel for one row splits the padding otherwise");
}

/* The library computes other rows than the result's, or has too little scratch, unless it uses its other kernel. */
inline void want_rows_of_sums(Integers kernel, Integers stride, Integers padding, int64_t in_channels) {
  const bool reverses = in_channels > 16 && stride[0] <= 2 && stride[1] <= 2;
  want(reverses || padding[0] % stride[0] == 0, "the vertical padding is a multiple of the stride");
  want(reverses || kernel[0] >= stride[0] + padding[0], "the window is as high as stride and padding together");
  want(reverses || kernel[1] >= stride[1] || stride[0] >= stride[1], "the window is as wide as the stride");
}

}  // namespace pillion

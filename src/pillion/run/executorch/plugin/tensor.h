/* SPDX-License-Identifier: Apache-2.0
 * Tensors as the kernels want them. The library that runs on a chip looks at dim orders too little and then computes
 * something else; here they are conditions. */
#pragma once

#include <vector>

#include "call.h"
#include "rounding.h"

namespace pillion {

inline bool has_image_order(const Tensor& t) {
  const auto order = t.dim_order();
  return t.dim() == 4 && order[0] == 0 && order[1] == 2 && order[2] == 3 && order[3] == 1;
}

/* Where there is one channel or one pixel, the memory of any order is that of an image. */
inline bool looks_like_image(const Tensor& t) {
  return t.dim() == 4 && (t.size(1) == 1 || (t.size(2) == 1 && t.size(3) == 1));
}

inline bool is_image(const Tensor& t) {
  return has_image_order(t) || looks_like_image(t);
}

inline bool is_contiguous(const Tensor& t) {
  for (ssize_t i = 0; i < t.dim(); i++) {
    if (t.dim_order()[i] != i) {
      return false;
    }
  }
  return true;
}

inline bool same_sizes(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) {
    return false;
  }
  for (ssize_t i = 0; i < a.dim(); i++) {
    if (a.size(i) != b.size(i) || a.dim_order()[i] != b.dim_order()[i]) {
      return false;
    }
  }
  return true;
}

inline const int8_t* int8(const Tensor& t) {
  want(t.scalar_type() == ScalarType::Char, "tensors are int8");
  return t.const_data_ptr<int8_t>();
}

inline int8_t* int8_out(const Tensor& t) {
  want(t.scalar_type() == ScalarType::Char, "tensors are int8");
  return t.mutable_data_ptr<int8_t>();
}

/* A vector of 32-bit integers, one for each channel. */
inline const int32_t* int32s(const Tensor& t, ssize_t count) {
  want(t.scalar_type() == ScalarType::Int && t.numel() == count, "one 32-bit integer for each channel");
  return t.const_data_ptr<int32_t>();
}

/* Bias, or zeros where there is none. */
inline std::vector<int32_t> bias_of(const Tensor* bias, ssize_t count) {
  if (bias == nullptr) {
    return std::vector<int32_t>(count, 0);
  }
  const int32_t* first = int32s(*bias, count);
  return std::vector<int32_t>(first, first + count);
}

/* Sizes of a tensor of rank 4 in NHWC memory. */
struct Image {
  int32_t n, h, w, c;

  Image(const Tensor& t, bool nhwc) {
    if (nhwc) {
      want(t.dim() == 4 && is_contiguous(t), "images of an _nhwc operator are contiguous tensors of rank 4");
      n = t.size(0), h = t.size(1), w = t.size(2), c = t.size(3);
      return;
    }
    want(is_image(t), "images are tensors of rank 4 with dim order 0, 2, 3, 1, or of one channel or pixel");
    n = t.size(0), c = t.size(1), h = t.size(2), w = t.size(3);
  }
};

inline int32_t int8_level(int64_t number, const char* what) {
  want(number >= -128 && number <= 127, std::string(what) + " is an int8 number");
  return static_cast<int32_t>(number);
}

inline int32_t check_32(int64_t number) {
  want(number >= INT32_MIN && number <= INT32_MAX, "numbers have 32 bits");
  return static_cast<int32_t>(number);
}

inline int32_t shift_of(int32_t shift) {
  want(shift >= -31 && shift <= 31, "shifts are from -31 to 31");
  return shift;
}

}  // namespace pillion

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "call.h"

namespace pillion {

extern const Operator kConv2d, kDepthwiseConv2d, kTransposeConv2d, kLinear, kBatchMatmul;
extern const Operator kAdd, kMul, kDiv, kActivation, kMinimum, kMaximum, kQuantize, kDequantize;
extern const Operator kAvgPool2d, kMaxPool2d, kSoftmax;
extern const Operator kTranspose, kPad;
extern const Operator kConv2dNhwc, kDepthwiseConv2dNhwc, kTransposeConv2dNhwc, kAvgPool2dNhwc, kMaxPool2dNhwc;

}  // namespace pillion

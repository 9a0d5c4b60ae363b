/* SPDX-License-Identifier: Apache-2.0 */
#include "transpose_conv2d.h"

#if defined(__ARM_FEATURE_MVE)
PILLION_MVE_TRANSPOSE_CONV2D(s16, int16_t)
#endif

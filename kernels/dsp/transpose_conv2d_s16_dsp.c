/* SPDX-License-Identifier: Apache-2.0 */
#include "transpose_conv2d.h"

#if PILLION_HAS_DSP
PILLION_DSP_TRANSPOSE_CONV2D(s16, int16_t)
#endif

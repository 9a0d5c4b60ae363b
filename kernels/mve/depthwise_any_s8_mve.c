/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution with any kernel, stride, dilation and padding, 16 channels at a time (wide_any.h). */
#include "wide_any.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

/* Turns sums into 32-bit results; multipliers and shifts at these offsets of r5. */
#define REQUANTIZE(q, multipliers, shifts)               \
    MULTIPLY(q, multipliers)                             \
    "vldrb.s32 q1, [r5, #" shifts "]\n"                  \
    "vqdmlah.s32 " q ", " q ", r12\n"                    \
    "vrshl.s32 " q ", " q ", q1\n"
#define RESULTS                                                                                              \
    REQUANTIZE("q4", "0", "64") REQUANTIZE("q5", "16", "68") REQUANTIZE("q6", "32", "72")                    \
    REQUANTIZE("q7", "48", "76") STORE_INT8
WIDE_ANY(outputs, RESULTS)

void pillion_depthwise_any_s8_mve(const pillion_depthwise_any_s8_mve_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 1, 1, 36};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp(y, p->images * p->out_h * p->out_w * p->channels, p->low, p->high);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution with any kernel, stride, dilation and padding, 16 channels at a time (wide_any.h); sums are shifted left before
 * multiplication, and right shifts are products (README.md). */
#include "wide_any.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

/* Turns sums into results with the zero point; left shifts, multipliers and factors at these offsets of r5. */
#define REQUANTIZE(q, shifts, multipliers, factors)      \
    "vldrb.u32 q1, [r5, #" shifts "]\n"                  \
    "vshl.s32 " q ", " q ", q1\n"                        \
    MULTIPLY(q, multipliers)                             \
    "vldrw.u32 q0, [r5, #" factors "]\n"                 \
    "vqrdmlash.s32 " q ", q0, r8\n"
#define RESULTS                                                                                                    \
    REQUANTIZE("q4", "0", "16", "80") REQUANTIZE("q5", "4", "32", "96") REQUANTIZE("q6", "8", "48", "112")         \
    REQUANTIZE("q7", "12", "64", "128") NARROW STORE_BYTES
WIDE_ANY(outputs, RESULTS)

void pillion_depthwise_any_left_s8_mve(const pillion_depthwise_any_left_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 1, 1, 52};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp(y, p->images * p->out_h * p->out_w * p->channels, p->low, p->high);
}

#endif

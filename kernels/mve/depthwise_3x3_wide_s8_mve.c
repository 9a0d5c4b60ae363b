/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3 without dilation, 16 channels at a time (wide_3x3.h): a pixel takes 124 instructions, four
 * more where negative results matter. */
#include "wide_3x3.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

#define SHIFT(q, shifts)                      \
    "vldrb.s32 q0, [r5, #" shifts "]\n"       \
    "vrshl.s32 " q ", " q ", q0\n"
#define FIX(q) "vqdmlah.s32 " q ", " q ", r12\n"
#define RESULTS                                                                          \
    MULTIPLY("q4", "48") MULTIPLY("q5", "64") MULTIPLY("q6", "80") MULTIPLY("q7", "96")  \
    "cbnz r2, 3f\n"                                                                      \
    FIX("q4") FIX("q5") FIX("q6") FIX("q7")                                              \
    "3:\n"                                                                               \
    SHIFT("q4", "112") SHIFT("q5", "116") SHIFT("q6", "120") SHIFT("q7", "124") STORE_INT8
WIDE_3X3(outputs, RESULTS)

void pillion_depthwise_3x3_wide_s8_mve(const pillion_depthwise_3x3_wide_s8_mve_params *p, const int8_t *x, int8_t *y,
                                       void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 1, 1, 36};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp(y, p->images * p->out_h * p->out_w * p->channels, p->low, p->high);
}

#endif

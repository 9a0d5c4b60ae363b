/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 5x5, stride 1 or 2, of 8-bit inputs to 16-bit results (depthwise_5x5.h). */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

#define NUMBERS "{r1, r3}" /* bias, factor */
#define Y_BYTES 2
/* r7 is added with saturation and taken away again: results are at least -2^15 - r7. */
#define RESULTS                      \
    "vqmovnb.s32 q6, q6\n"           \
    "vqadd.s16 q6, q6, r7\n"         \
    "vsub.i16 q6, q6, r7\n"          \
    "vstrh.32 q6, [r9, q7]\n"
#include "depthwise_5x5.h"

void pillion_depthwise_5x5_s8_s16_mve(const pillion_depthwise_5x5_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch) {
    depthwise_5x5(p, x, y, scratch, INT16_MIN - p->low);
    pillion_mve_clamp_16(y, p->images * p->output_bytes >> 1, INT16_MIN, p->high);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 5x5, stride 1 or 2 (depthwise_5x5.h). y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

#define NUMBERS "{r1, r3, r5}" /* bias, multiplier, shift */
#define Y_BYTES 1
/* r7 is the zero point. */
#define RESULTS                      \
    "vqdmlah.s32 q6, q6, lr\n"       \
    "vrshl.s32 q6, r5\n"             \
    "vqmovnb.s32 q6, q6\n"           \
    "vqadd.s16 q6, q6, r7\n"         \
    "vqmovnb.s16 q6, q6\n"           \
    "vstrb.32 q6, [r9, q7]\n"
#include "depthwise_5x5.h"

void pillion_depthwise_5x5_s8_mve(const pillion_depthwise_5x5_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    depthwise_5x5(p, x, y, scratch, p->out_zp);
    pillion_mve_clamp(y, p->images * p->output_bytes, p->low, p->high);
}

#endif

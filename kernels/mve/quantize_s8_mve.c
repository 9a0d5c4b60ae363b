/* SPDX-License-Identifier: Apache-2.0
 * The zero point is added between two saturating narrowings. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "reals.h"

void pillion_quantize_s8_mve(const pillion_quantize_s8_mve_params *p, const float *x, int8_t *y, void *scratch) {
    (void)scratch;
    QUANTIZE(x, y, p->count, p->reciprocal, p->out_zp, "vqmovnb.s32 q0, q0\n" "vqadd.s16 q0, q0, %4\n" "vqmovnb.s16 q0, q0\n",
             "vstrb.32 q0, [%1], #4\n");
}

#endif

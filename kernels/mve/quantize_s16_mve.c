/* SPDX-License-Identifier: Apache-2.0
 * y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "reals.h"

void pillion_quantize_s16_mve(const pillion_quantize_s16_mve_params *p, const float *x, int16_t *y, void *scratch) {
    (void)scratch;
    QUANTIZE(x, y, p->count, p->reciprocal, p->out_zp, "vqadd.s32 q0, q0, %4\n" "vqmovnb.s32 q0, q0\n", "vstrh.32 q0, [%1], #8\n");
}

#endif

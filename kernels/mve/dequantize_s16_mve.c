/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "reals.h"

void pillion_dequantize_s16_mve(const pillion_dequantize_s16_mve_params *p, const int16_t *x, float *y, void *scratch) {
    (void)scratch;
    DEQUANTIZE(x, y, p->count, p->scale, p->in_zp, "vldrh.s32 q0, [%0], #8\n");
}

#endif

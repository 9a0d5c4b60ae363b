/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "reals.h"

void pillion_dequantize_s8_mve(const pillion_dequantize_s8_mve_params *p, const int8_t *x, float *y, void *scratch) {
    (void)scratch;
    DEQUANTIZE(x, y, p->count, p->scale, p->in_zp, "vldrb.s32 q0, [%0], #4\n");
}

#endif

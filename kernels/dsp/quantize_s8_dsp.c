/* SPDX-License-Identifier: Apache-2.0 */
#include "reals.h"

#if PILLION_HAS_DSP
#define SATURATION "#8"
#define STORE(number) "strb " number ", [%1], #1\n"

void pillion_quantize_s8_dsp(const pillion_quantize_s8_dsp_params *p, const float *x, int8_t *y, void *scratch) {
    const float reciprocal = p->reciprocal;
    const int32_t out_zp = p->out_zp;
    int32_t left = p->count;
    (void)scratch;
    for (; HAS_FLOATS && left >= 4; left -= 4) {
        QUANTIZE_FOUR(x, y, reciprocal, out_zp);
    }
    for (; left > 0; left--) {
        *y++ = (int8_t)pillion_clamp(pillion_nearest(*x++ * reciprocal, 1) + out_zp, INT8_MIN, INT8_MAX);
    }
}
#endif

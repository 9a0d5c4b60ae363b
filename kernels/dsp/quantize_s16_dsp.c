/* SPDX-License-Identifier: Apache-2.0 */
#include "reals.h"

#if PILLION_HAS_DSP
#define SATURATION "#16"
#define STORE(number) "strh " number ", [%1], #2\n"

void pillion_quantize_s16_dsp(const pillion_quantize_s16_dsp_params *p, const float *x, int16_t *y, void *scratch) {
    const float reciprocal = p->reciprocal;
    const int32_t out_zp = p->out_zp;
    int32_t left = p->count;
    (void)scratch;
    for (; HAS_FLOATS && left >= 4; left -= 4) {
        QUANTIZE_FOUR(x, y, reciprocal, out_zp);
    }
    for (; left > 0; left--) {
        *y++ = (int16_t)pillion_clamp(pillion_nearest_within(*x++ * reciprocal, 1, 17) + out_zp, INT16_MIN, INT16_MAX);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "reals.h"

#if PILLION_HAS_DSP
#define LOAD(number) "ldrsh " number ", [%0], #2\n"

void pillion_dequantize_s16_dsp(const pillion_dequantize_s16_dsp_params *p, const int16_t *x, float *y, void *scratch) {
    const float scale = p->scale;
    const int32_t in_zp = p->in_zp;
    int32_t left = p->count;
    (void)scratch;
    for (; HAS_FLOATS && left >= 4; left -= 4) {
        DEQUANTIZE_FOUR(x, y, scale, in_zp);
    }
    for (; left > 0; left--) {
        *y++ = (float)(*x++ - in_zp) * scale;
    }
}
#endif

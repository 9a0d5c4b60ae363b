/* SPDX-License-Identifier: Apache-2.0 */
#include "reals.h"

#if PILLION_HAS_DSP
#define LOAD(number) "ldrsb " number ", [%0], #1\n"

void pillion_dequantize_s8_dsp(const pillion_dequantize_s8_dsp_params *p, const int8_t *x, float *y, void *scratch) {
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

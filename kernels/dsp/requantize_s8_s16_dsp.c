/* SPDX-License-Identifier: Apache-2.0
 * A byte is the upper half of a halfword: those with even numbers are shifted there, those with odd ones are there. */
#include "conversions.h"

#if PILLION_HAS_DSP
#define UPPER_HALVES 0xff00ff00u

void pillion_requantize_s8_s16_dsp(const pillion_requantize_s8_s16_dsp_params *p, const int8_t *x, int16_t *y, void *scratch) {
    const int32_t multiplier = p->multiplier, constant = p->constant;
    (void)scratch;
    for (int32_t left = p->count; left >= 4; left -= 4, x += 4, y += 4) {
        uint32_t bytes;
        memcpy(&bytes, x, sizeof(bytes));
        const uint32_t even = bytes << 8 & UPPER_HALVES, odd = bytes & UPPER_HALVES;
        y[0] = (int16_t)pillion_lower_to_16(even, multiplier, constant);
        y[1] = (int16_t)pillion_lower_to_16(odd, multiplier, constant);
        y[2] = (int16_t)pillion_upper_to_16(even, multiplier, constant);
        y[3] = (int16_t)pillion_upper_to_16(odd, multiplier, constant);
    }
    for (int32_t left = p->count & 3; left > 0; left--) {
        *y++ = (int16_t)pillion_lower_to_16((uint32_t)*x++ << 8, multiplier, constant);
    }
}
#endif

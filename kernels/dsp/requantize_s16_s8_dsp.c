/* SPDX-License-Identifier: Apache-2.0 */
#include "conversions.h"

#if PILLION_HAS_DSP

void pillion_requantize_s16_s8_dsp(const pillion_requantize_s16_s8_dsp_params *p, const int16_t *x, int8_t *y, void *scratch) {
    const int32_t multiplier = p->multiplier, constant = p->constant;
    (void)scratch;
    for (int32_t left = p->count; left >= 8; left -= 8, x += 8, y += 8) {
        uint32_t pairs[4];
        memcpy(pairs, x, sizeof(pairs));
        for (int32_t i = 0; i < 4; i++) {
            y[2 * i] = (int8_t)pillion_lower_to_8(pairs[i], multiplier, constant);
            y[2 * i + 1] = (int8_t)pillion_upper_to_8(pairs[i], multiplier, constant);
        }
    }
    for (int32_t left = p->count & 7; left > 0; left--) {
        *y++ = (int8_t)pillion_lower_to_8((uint16_t)*x++, multiplier, constant);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * A function of one number of 16 bits: one load has both ends of a line, and one SMLAD takes them by their shares. y may be x. */
#include "dot16.h"

#if PILLION_HAS_DSP

/* x has two bytes, the lower one first: the place on a line and the line. `middle` is the entry for 0. */
static inline int16_t on_line(const int16_t *middle, const int8_t *x) {
    uint32_t ends;
    int32_t shares;
    memcpy(&ends, middle + x[1], 4);
    __asm("mla %0, %1, %2, %3" : "=r"(shares) : "r"((uint32_t)(uint8_t)x[0]), "r"(65535), "r"(256));
    __asm("smlad %0, %1, %0, %2" : "+&r"(shares) : "r"(ends), "r"(128));
    return (int16_t)(shares >> 8);
}

void pillion_wide_lut_dsp(const pillion_wide_lut_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int16_t *const middle = p->table + 128;
    const int8_t *at = (const int8_t *)x;
    int32_t count = p->count;
    (void)scratch;
    for (; count > 3; count -= 4, at += 8, y += 4) {
        y[0] = on_line(middle, at + 0);
        y[1] = on_line(middle, at + 2);
        y[2] = on_line(middle, at + 4);
        y[3] = on_line(middle, at + 6);
    }
    for (; count > 0; count--, at += 2) {
        *y++ = on_line(middle, at);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Products in 16 bits: SMMULR gives the upper word of 64 bits, rounded half up. y may be a or b. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

typedef pillion_wide_mul_dsp_params params;
#include "wide_rows.h"

PILLION_INLINE void elements(const params *p, const void *a, int32_t a_bytes, const void *b, int32_t b_bytes, void *y,
                             int32_t y_bytes) {
    const int32_t a_zp = p->a_zp, b_zp = p->b_zp, multiplier = p->multiplier, out_zp = p->out_zp;
    const uint32_t left = (uint32_t)p->left;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t first = (pillion_element(a, a_bytes, i) - a_zp) * multiplier;
        const int32_t second = (int32_t)((uint32_t)(pillion_element(b, b_bytes, i) - b_zp) << left);
        int32_t level;
        __asm("smmulr %0, %1, %2" : "=r"(level) : "r"(first), "r"(second));
        wide_store(y, y_bytes, i, level + out_zp);
    }
}

void pillion_wide_mul_dsp(const params *p, const void *a, const void *b, void *y, void *scratch) {
    (void)scratch;
    wide_rows(p, a, b, y);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Products in 16 bits: SMMULR gives the upper word of 64 bits, rounded half up. y may be a or b. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP
#include "pillion/wide.h"

typedef pillion_wide_mul_dsp_params params;

PILLION_INLINE void products(const params *p, const void *a, int32_t a_bytes, const void *b, int32_t b_bytes, void *y,
                             int32_t y_bytes) {
    const int32_t a_zp = p->a_zp, b_zp = p->b_zp, multiplier = p->multiplier, out_zp = p->out_zp;
    const uint32_t left = (uint32_t)p->left;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t first = (pillion_element(a, a_bytes, i) - a_zp) * multiplier;
        const int32_t second = (int32_t)((uint32_t)(pillion_element(b, b_bytes, i) - b_zp) << left);
        int32_t level;
        __asm("smmulr %0, %1, %2" : "=r"(level) : "r"(first), "r"(second));
        level += out_zp;
        if (y_bytes == 2) {
            __asm("ssat %0, #16, %0" : "+r"(level));
            ((int16_t *)y)[i] = (int16_t)level;
        } else {
            __asm("ssat %0, #8, %0" : "+r"(level));
            ((int8_t *)y)[i] = (int8_t)level;
        }
    }
}

static void row(const params *p, const void *a, const void *b, void *y) {
    if (p->y_bytes == 2) {
        if (p->b_bytes == 2) {
            products(p, a, 2, b, 2, y, 2);
        } else if (p->a_bytes == 2) {
            products(p, a, 2, b, 1, y, 2);
        } else {
            products(p, a, 1, b, 1, y, 2);
        }
    } else if (p->b_bytes == 2) {
        products(p, a, 2, b, 2, y, 1);
    } else {
        products(p, a, 2, b, 1, y, 1);
    }
}

void pillion_wide_mul_dsp(const params *p, const void *a, const void *b, void *y, void *scratch) {
    const int8_t *from_a = a, *from_b = b;
    int8_t *to = y;
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++) {
        row(p, from_a, from_b, to);
        from_a += p->a_row_step * p->a_bytes;
        from_b += p->b_row_step * p->b_bytes;
        to += p->count * p->y_bytes;
    }
}
#endif

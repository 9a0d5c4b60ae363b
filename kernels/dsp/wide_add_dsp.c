/* SPDX-License-Identifier: Apache-2.0
 * Sums in 16 bits: two SMLAL to a sum of 64 bits. Operands are shifted to the left, so that the answer is in its upper word. y may be a
 * or b. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP
#include "pillion/requantize.h"

typedef pillion_wide_add_dsp_params params;

PILLION_INLINE int32_t element(const void *x, int32_t bytes, int32_t at) {
    return bytes == 2 ? ((const int16_t *)x)[at] : ((const int8_t *)x)[at];
}

PILLION_INLINE void sums(const params *p, const void *a, int32_t a_bytes, const void *b, int32_t b_bytes, void *y,
                         int32_t y_bytes) {
    const int32_t a_multiplier = p->a_multiplier, b_multiplier = p->b_multiplier;
    const uint32_t left = (uint32_t)p->left, right = (uint32_t)p->right;
    const int64_t offset = (int64_t)((uint64_t)(uint32_t)p->offset_high << 32 | (uint32_t)p->offset_low);
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t first = (int32_t)((uint32_t)element(a, a_bytes, i) << left);
        const int32_t second = (int32_t)((uint32_t)element(b, b_bytes, i) << left);
        const int64_t sum = offset + (int64_t)first * a_multiplier + (int64_t)second * b_multiplier;
        int32_t level = (int32_t)(sum >> 32) >> right;
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
            sums(p, a, 2, b, 2, y, 2);
        } else if (p->a_bytes == 2) {
            sums(p, a, 2, b, 1, y, 2);
        } else {
            sums(p, a, 1, b, 1, y, 2);
        }
    } else if (p->b_bytes == 2) {
        sums(p, a, 2, b, 2, y, 1);
    } else {
        sums(p, a, 2, b, 1, y, 1);
    }
}

void pillion_wide_add_dsp(const params *p, const void *a, const void *b, void *y, void *scratch) {
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

/* SPDX-License-Identifier: Apache-2.0
 * Rows of two operands and a result, each of 8 or 16 bits: a loop for each of the widths that there are. Who includes this has
 * `params`, and defines `elements`, which makes one row. */
#include "dot.h"
#include "dot16.h"
#include "pillion/wide.h"

PILLION_INLINE void elements(const params *p, const void *a, int32_t a_bytes, const void *b, int32_t b_bytes, void *y,
                             int32_t y_bytes);

static void wide_row(const params *p, const void *a, const void *b, void *y) {
    if (p->y_bytes == 2) {
        if (p->b_bytes == 2) {
            elements(p, a, 2, b, 2, y, 2);
        } else if (p->a_bytes == 2) {
            elements(p, a, 2, b, 1, y, 2);
        } else {
            elements(p, a, 1, b, 1, y, 2);
        }
    } else if (p->b_bytes == 2) {
        elements(p, a, 2, b, 2, y, 1);
    } else {
        elements(p, a, 2, b, 1, y, 1);
    }
}

PILLION_INLINE void wide_rows(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    int8_t *const first = y;
    for (int32_t n = 0; n < p->rows; n++) {
        wide_row(p, a, b, y);
        a += p->a_row_step * p->a_bytes;
        b += p->b_row_step * p->b_bytes;
        y += p->count * p->y_bytes;
    }
    if (p->y_bytes == 2) {
        pillion_dsp_clamp_16((int16_t *)first, p->rows * p->count, p->low, p->high);
    } else {
        pillion_dsp_clamp(first, p->rows * p->count, p->low, p->high);
    }
}

/* Saturates to the width of the result. */
PILLION_INLINE void wide_store(void *y, int32_t y_bytes, int32_t at, int32_t level) {
    if (y_bytes == 2) {
        __asm("ssat %0, #16, %0" : "+r"(level));
        ((int16_t *)y)[at] = (int16_t)level;
    } else {
        __asm("ssat %0, #8, %0" : "+r"(level));
        ((int8_t *)y)[at] = (int8_t)level;
    }
}

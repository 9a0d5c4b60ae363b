/* SPDX-License-Identifier: Apache-2.0
 * Rows of bytes become columns: between images with channels first and channels last. The inner loop goes along the longer
 * side, reading or writing with a step, four bytes at a time. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

static void scatter(const int8_t *x, int8_t *y, int32_t count, int32_t step) {
    const int32_t three_steps = 3 * step;
    int32_t a, b, c, d;
    for (; count >= 4; count -= 4) {
        __asm volatile("ldrb %2, [%0], #1\n\t"
                       "ldrb %3, [%0], #1\n\t"
                       "ldrb %4, [%0], #1\n\t"
                       "ldrb %5, [%0], #1\n\t"
                       "strb %2, [%1]\n\t"
                       "strb %3, [%1, %6]\n\t"
                       "strb %4, [%1, %6, lsl #1]\n\t"
                       "strb %5, [%1, %7]\n\t"
                       "add %1, %1, %6, lsl #2"
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "r"(step), "r"(three_steps)
                       : "memory");
    }
    for (; count > 0; count--, y += step) {
        *y = *x++;
    }
}

static void gather(const int8_t *x, int8_t *y, int32_t count, int32_t step) {
    const int32_t three_steps = 3 * step;
    int32_t a, b, c, d;
    for (; count >= 4; count -= 4) {
        __asm volatile("ldrb %2, [%0]\n\t"
                       "ldrb %3, [%0, %6]\n\t"
                       "ldrb %4, [%0, %6, lsl #1]\n\t"
                       "ldrb %5, [%0, %7]\n\t"
                       "add %0, %0, %6, lsl #2\n\t"
                       "strb %2, [%1], #1\n\t"
                       "strb %3, [%1], #1\n\t"
                       "strb %4, [%1], #1\n\t"
                       "strb %5, [%1], #1"
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "r"(step), "r"(three_steps)
                       : "memory");
    }
    for (; count > 0; count--, x += step) {
        *y++ = *x;
    }
}

void pillion_transpose_s8_dsp(const pillion_transpose_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++, x += p->rows * p->columns, y += p->rows * p->columns) {
        for (int32_t i = 0; p->columns >= p->rows && i < p->rows; i++) {
            scatter(x + i * p->columns, y + i, p->columns, p->rows);
        }
        for (int32_t i = 0; p->columns < p->rows && i < p->columns; i++) {
            gather(x + i, y + i * p->rows, p->rows, p->columns);
        }
    }
}
#endif

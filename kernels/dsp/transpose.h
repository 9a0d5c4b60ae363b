/* SPDX-License-Identifier: Apache-2.0
 * Rows become columns: between images with channels first and channels last. The inner loop goes along the longer side, reading
 * or writing with a step, four elements at a time.
 *
 * Who includes this defines `element`, ELEMENT, the end of the instructions that load and store one, and ELEMENT_BYTES. */
#ifndef PILLION_DSP_TRANSPOSE_H
#define PILLION_DSP_TRANSPOSE_H

#include "pillion/dsp.h"

#if PILLION_HAS_DSP

/* At `at`, an address and where it moves after that. */
#define LOAD(to, at) "ldr" ELEMENT " " to ", " at "\n\t"
#define STORE(from, at) "str" ELEMENT " " from ", " at "\n\t"
#define NEXT(address) "[" address "], #" ELEMENT_BYTES

static inline void scatter(const element *x, element *y, int32_t count, int32_t step) {
    const int32_t bytes = step * (int32_t)sizeof(element), three_steps = 3 * bytes;
    int32_t a, b, c, d;
    for (; count >= 4; count -= 4) {
        __asm volatile(LOAD("%2", NEXT("%0")) LOAD("%3", NEXT("%0")) LOAD("%4", NEXT("%0")) LOAD("%5", NEXT("%0"))
                       STORE("%2", "[%1]") STORE("%3", "[%1, %6]") STORE("%4", "[%1, %6, lsl #1]") STORE("%5", "[%1, %7]")
                       "add %1, %1, %6, lsl #2"
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "r"(bytes), "r"(three_steps)
                       : "memory");
    }
    for (; count > 0; count--, y += step) {
        *y = *x++;
    }
}

static inline void gather(const element *x, element *y, int32_t count, int32_t step) {
    const int32_t bytes = step * (int32_t)sizeof(element), three_steps = 3 * bytes;
    int32_t a, b, c, d;
    for (; count >= 4; count -= 4) {
        __asm volatile(LOAD("%2", "[%0]") LOAD("%3", "[%0, %6]") LOAD("%4", "[%0, %6, lsl #1]") LOAD("%5", "[%0, %7]")
                       "add %0, %0, %6, lsl #2\n\t"
                       STORE("%2", NEXT("%1")) STORE("%3", NEXT("%1")) STORE("%4", NEXT("%1")) STORE("%5", NEXT("%1"))
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "r"(bytes), "r"(three_steps)
                       : "memory");
    }
    for (; count > 0; count--, x += step) {
        *y++ = *x;
    }
}

static inline void transpose(const pillion_transpose_s8_dsp_params *p, const element *x, element *y) {
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

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Extremes over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], four elements at a time; the last four overlap those
 * before. SSUB8 sets a flag per byte where the first of two is not less; SELECT, a text, takes the bytes by these flags. */
#ifndef PILLION_DSP_EXTREMES_H
#define PILLION_DSP_EXTREMES_H

#include "pillion/dsp.h"

#include <string.h>

#if PILLION_HAS_DSP

static inline uint32_t extreme_of(uint32_t a, uint32_t b) {
    uint32_t unused;
    __asm("ssub8 %1, %0, %2\n\t" SELECT : "+&r"(a), "=&r"(unused) : "r"(b));
    return a;
}

static inline uint32_t word(const int8_t *x) {
    uint32_t four;
    memcpy(&four, x, 4);
    return four;
}

/* Four results: the extremes of those that there are and of some rows. */
static uint32_t columns(uint32_t extremes, const int8_t *x, int32_t rows, int32_t step) {
    for (; rows >= 4; rows -= 4, x += 4 * step) {
        extremes = extreme_of(extreme_of(extremes, word(x)), word(x + step));
        extremes = extreme_of(extreme_of(extremes, word(x + 2 * step)), word(x + 3 * step));
    }
    for (; rows > 0; rows--, x += step) {
        extremes = extreme_of(extremes, word(x));
    }
    return extremes;
}

/* One result, of elements `step` bytes apart. */
static int8_t column(int8_t first, const int8_t *x, int32_t count, int32_t step) {
    uint32_t extreme = (uint8_t)first;
    if (step == 1 && count >= 4) {
        extreme = columns(extreme * 0x01010101u, x, count / 4, 4);
        extreme = extreme_of(extreme, word(x + count - 4));
        extreme = extreme_of(extreme, extreme >> 16);
        return (int8_t)extreme_of(extreme, extreme >> 8);
    }
    for (; count > 0; count--, x += step) {
        extreme = extreme_of(extreme, (uint8_t)*x);
    }
    return (int8_t)extreme;
}

/* A tile goes on from the results of those before it, which are held in scratch. */
static void extremes(const pillion_reduce_max_s8_dsp_params *p, const int8_t *x, int8_t *y, int8_t *held) {
    const int32_t inner = p->inner;
    int8_t *to = p->is_last ? y : held;
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * inner, to += inner) {
        const int8_t *const from = p->is_first ? x : held;
        for (int32_t i = 0; i < inner && inner < 4; i++) {
            to[i] = column(from[i], x + i, p->reduced, inner);
        }
        for (int32_t i = 0; i < inner && inner >= 4; i += 4) {
            const int32_t at = i + 4 > inner ? inner - 4 : i;
            const uint32_t four = columns(word(from + at), x + at, p->reduced, inner);
            memcpy(to + at, &four, 4);
        }
    }
}
#endif
#endif

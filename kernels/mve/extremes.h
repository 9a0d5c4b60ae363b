/* SPDX-License-Identifier: Apache-2.0
 * Extremes over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], sixteen results at a time. Where nothing lies behind
 * the axes that go, a vector holds sixteen elements of one result. COMPARE is "vmax" or "vmin". */
#ifndef PILLION_MVE_EXTREMES_H
#define PILLION_MVE_EXTREMES_H

#include <stdint.h>

enum { LANES = 16 };

/* Up to sixteen neighbouring results: the extremes of the values in `from` and of some rows. */
static void columns(const int8_t *from, const int8_t *x, int32_t rows, int32_t step, int32_t lanes, int8_t *y) {
    __asm__ volatile(
        "vldrb.u8 q0, [%[from]]\n"
        "dls lr, %[rows]\n"
        "1: vldrb.u8 q1, [%[x]]\n"
        "add %[x], %[step]\n"
        COMPARE ".s8 q0, q0, q1\n"
        "le lr, 1b\n"
        "vctp.8 %[lanes]\n"
        "vpst\n"
        "vstrbt.8 q0, [%[y]]\n"
        : [x] "+&r"(x)
        : [from] "r"(from), [rows] "r"(rows), [step] "r"(step), [lanes] "r"(lanes), [y] "r"(y)
        : "lr", "q0", "q1", "cc", "memory");
}

/* The extreme of a number and of some neighbours. */
static int8_t row(int32_t extreme, const int8_t *x, int32_t count) {
    __asm__ volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.u8 q0, [%[x]], #16\n"
        COMPARE "v.s8 %[extreme], q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&r"(x), [extreme] "+&r"(extreme)
        : [count] "r"(count)
        : "lr", "q0", "cc", "memory");
    return (int8_t)extreme;
}

/* A tile continues from the results of earlier tiles, which scratch holds. */
static void extremes(const pillion_reduce_max_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *held) {
    const int32_t inner = p->inner;
    int8_t *to = p->is_last ? y : held;
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * inner, to += inner) {
        const int8_t *const from = p->is_first ? x : held;
        if (inner == 1) {
            *to = row(*from, x, p->reduced);
            continue;
        }
        for (int32_t i = 0; i < inner; i += LANES) {
            columns(from + i, x + i, p->reduced, inner, inner - i, to + i);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Sums of elements that lie apart, sixteen neighbours in turn: 255 elements fit 16 bits, whatever their sign. */
#ifndef PILLION_MVE_ROW_SUMS_H
#define PILLION_MVE_ROW_SUMS_H

#include <stdint.h>

#include "sums.h"

enum { MOST_ROWS = 255, LANES = 16 };

/* `left` rows of sixteen neighbours from x on: q0 and q1 take in q2 and q3, 16 bits each, and go to the sums in q4 to q7, which are then
 * written. */
#define SUMS_OF_ROWS(add_even, add_odd)                                                                 \
    "1:\n"                                                                                              \
    "cmp %[rows], %[left]\n"                                                                            \
    "it gt\n"                                                                                           \
    "movgt %[rows], %[left]\n"                                                                          \
    "subs %[left], %[left], %[rows]\n"                                                                  \
    "vmov.i32 q0, #0\n"                                                                                 \
    "vmov.i32 q1, #0\n"                                                                                 \
    "dls lr, %[rows]\n"                                                                                 \
    "2:\n"                                                                                              \
    "vldrb.s16 q2, [%[x]]\n"                                                                            \
    "vldrb.s16 q3, [%[x], #8]\n"                                                                        \
    "add %[x], %[x], %[inner]\n"                                                                        \
    add_even add_odd                                                                                    \
    "le lr, 2b\n" ADD_HALVES("q0", "q4", "q5") ADD_HALVES("q1", "q6", "q7")                             \
    "cmp %[left], #0\n"                                                                                 \
    "bne 1b\n"                                                                                          \
    "vstrw.32 q4, [%[sums]]\n"                                                                          \
    "vstrw.32 q5, [%[sums], #16]\n"                                                                     \
    "vstrw.32 q6, [%[sums], #32]\n"                                                                     \
    "vstrw.32 q7, [%[sums], #48]\n"

/* Adds so many rows of sixteen neighbours, each times `sign`, to their sums: the even ones of eight, then the odd ones. */
static inline void add_rows(const int8_t *x, int32_t left, int32_t inner, int32_t sign, int32_t *sums) {
    int32_t rows = MOST_ROWS;
    __asm__ volatile(
        "vldrw.s32 q4, [%[sums]]\n"
        "vldrw.s32 q5, [%[sums], #16]\n"
        "vldrw.s32 q6, [%[sums], #32]\n"
        "vldrw.s32 q7, [%[sums], #48]\n"
        SUMS_OF_ROWS("vmla.s16 q0, q2, %[sign]\n", "vmla.s16 q1, q3, %[sign]\n")
        : [x] "+&l"(x), [left] "+&r"(left), [rows] "+&r"(rows)
        : [inner] "r"(inner), [sign] "r"(sign), [sums] "r"(sums)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

#endif

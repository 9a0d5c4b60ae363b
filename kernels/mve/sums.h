/* SPDX-License-Identifier: Apache-2.0
 * Code that sums and means share: results from 32-bit sums.
 * Requantization as in README.md: the number of the sign fix is 0 where there is no right shift. */
#ifndef PILLION_MVE_SUMS_H
#define PILLION_MVE_SUMS_H

#include <stdint.h>

/* Up to eight neighbouring results from the sums of the even ones, then of the odd ones. The numbers are multiplier, shift, fix and out_zp. */
static __attribute__((noinline, unused)) void finish(const int32_t *numbers, const int32_t *sums, int32_t lanes, int8_t *y) {
    int32_t a, b;
    __asm__ volatile(
        "vldrw.s32 q0, [%[sums]]\n"
        "vldrw.s32 q1, [%[sums], #16]\n"
        "ldrd %[a], %[b], [%[numbers]]\n" /* multiplier, shift */
        "vqrdmulh.s32 q0, q0, %[a]\n"
        "vqrdmulh.s32 q1, q1, %[a]\n"
        "ldr %[a], [%[numbers], #8]\n" /* fix */
        "vqdmlah.s32 q0, q0, %[a]\n"
        "vqdmlah.s32 q1, q1, %[a]\n"
        "vrshl.s32 q0, %[b]\n"
        "vrshl.s32 q1, %[b]\n"
        "ldr %[a], [%[numbers], #12]\n" /* out_zp */
        "vqmovnb.s32 q0, q0\n"
        "vqmovnt.s32 q0, q1\n"
        "vqadd.s16 q0, q0, %[a]\n"
        "vqmovnb.s16 q0, q0\n"
        "vctp.16 %[lanes]\n"
        "vpst\n"
        "vstrbt.16 q0, [%[y]]\n"
        : [a] "=&r"(a), [b] "=&r"(b)
        : [sums] "r"(sums), [numbers] "r"(numbers), [lanes] "r"(lanes), [y] "l"(y)
        : "q0", "q1", "cc", "memory");
}

#define ADD_HALVES(from, even, odd)              \
    "vmovlb.s16 q2, " from "\n"                  \
    "vadd.i32 " even ", " even ", q2\n"          \
    "vmovlt.s16 q2, " from "\n"                  \
    "vadd.i32 " odd ", " odd ", q2\n"

#endif

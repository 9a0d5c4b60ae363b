/* SPDX-License-Identifier: Apache-2.0
 * y = saturate((a * a_factor + b * b_factor + constant) >> 21): the compiler has found factors for which this is the sum,
 * or the difference, of the two numbers at their scales for all 65536 pairs of int8 values (emitters/c/families/sum_formulas.py).
 *
 * Four elements are two widening loads, VMLAS, VMLA and two rounding and saturating narrowing shifts, by 16 and by 5, whose
 * rounding is in the constant. Rows of b may be the same for all rows of a. y may be either operand. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

#define FOUR                         \
    "vldrb.s32 q0, [%0], #4\n"       \
    "vldrb.s32 q1, [%1], #4\n"       \
    "vmlas.s32 q0, q2, %5\n"         \
    "vmla.s32 q0, q1, %4\n"          \
    "vqrshrnb.s32 q0, q0, #16\n"     \
    "vqrshrnb.s16 q0, q0, #5\n"      \
    "vstrb.32 q0, [%2], #4\n"

/* Sixteen to a turn, then four, the last of them predicated. */
static void row(const pillion_add_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    int32_t first = p->a_factor;
    __asm__ volatile(
        "vdup.32 q2, %3\n"
        "lsr lr, %6, #4\n"
        "wls lr, lr, 2f\n"
        "1:\n" FOUR FOUR FOUR FOUR
        "le lr, 1b\n"
        "2:\n"
        "and %3, %6, #15\n"
        "wlstp.32 lr, %3, 4f\n"
        "3:\n" FOUR
        "letp lr, 3b\n"
        "4:\n"
        : "+&l"(a), "+&l"(b), "+&l"(y), "+&r"(first)
        : "r"(p->b_factor), "r"(p->constant), "r"(p->count)
        : "lr", "q0", "q1", "q2", "cc", "memory");
}

void pillion_add_s8_mve(const pillion_add_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    int8_t *out = y;
    for (int32_t i = 0; i < p->rows; i++, a += p->a_row_step, b += p->b_row_step, out += p->count) {
        row(p, a, b, out);
    }
    pillion_mve_clamp(y, p->rows * p->count, p->low, p->high);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A sum or difference as it is defined: both operands with 20 bits of headroom to a common scale, then to that of the
 * result, each rounded. Four elements at a time, for scales that add_s8_mve.c has no exact factors for.
 *
 * Requantization as in README.md; the number of the sign fix is 0 where there is no right shift. Rows of b may be the same
 * for all rows of a. y may be either operand. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "pillion/assembly.h"

PILLION_AT(pillion_add_rescaled_s8_mve_params, count, offsetof(pillion_add_rescaled_s8_mve_params, a_multiplier) - 12);
PILLION_FIELDS_AT(pillion_add_rescaled_s8_mve_params, offsetof(pillion_add_rescaled_s8_mve_params, a_multiplier),
                  a_multiplier, a_shift, b_multiplier, b_shift, out_multiplier, out_shift, a_offset, b_offset, a_fix,
                  b_fix, out_fix, out_zp, b_sign);

#define REQUANTIZE(q, multiplier, fix, shift)           \
    "vqrdmulh.s32 " q ", " q ", " multiplier "\n"       \
    "vqdmlah.s32 " q ", " q ", " fix "\n"               \
    "vrshl.s32 " q ", " q ", " shift "\n"

static void row(const pillion_add_rescaled_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    const int32_t *numbers = &p->a_multiplier;
    __asm__ volatile(
        "ldr lr, [%3, #-12]\n"                /* count */
        "ldm %3!, {r4, r5, r6, r8, r9, r10}\n" /* multipliers and shifts: a, b, result */
        "vdup.32 q2, r4\n"
        "vdup.32 q3, r5\n"
        "vdup.32 q4, r6\n"
        "vdup.32 q5, r8\n"
        "vdup.32 q6, r9\n"
        "vdup.32 q7, r10\n"
        "ldm %3!, {r4, r5, r6, r8, r9, r10}\n" /* offsets of a and b, fixes of a, b and result, zero point */
        "ldr %3, [%3]\n"                       /* 1, or -1 for a difference */
        "wlstp.32 lr, lr, 2f\n"
        "1: vldrb.s32 q0, [%0], #4\n"
        "vldrb.s32 q1, [%1], #4\n"
        "vshl.i32 q0, q0, #20\n"
        "vshl.i32 q1, q1, #20\n"
        "vadd.i32 q0, q0, r4\n"
        "vadd.i32 q1, q1, r5\n" REQUANTIZE("q0", "q2", "r6", "q3") REQUANTIZE("q1", "q4", "r8", "q5")
        "vmla.s32 q0, q1, %3\n" REQUANTIZE("q0", "q6", "r9", "q7")
        "vqmovnb.s32 q0, q0\n"
        "vqadd.s16 q0, q0, r10\n"
        "vqmovnb.s16 q0, q0\n"
        "vstrb.32 q0, [%2], #4\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&l"(a), "+&l"(b), "+&l"(y), "+&r"(numbers)
        :
        : "r4", "r5", "r6", "r8", "r9", "r10", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

void pillion_add_rescaled_s8_mve(const pillion_add_rescaled_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                                 void *scratch) {
    (void)scratch;
    int8_t *out = y;
    for (int32_t i = 0; i < p->rows; i++, a += p->a_row_step, b += p->b_row_step, out += p->count) {
        row(p, a, b, out);
    }
    pillion_mve_clamp(y, p->rows * p->count, p->low, p->high);
}

#endif

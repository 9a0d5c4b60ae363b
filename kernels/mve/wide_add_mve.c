/* SPDX-License-Identifier: Apache-2.0
 * Sums in 16 bits, four elements at a time. A sum of products has up to 48 bits: products with the lower halves of both multipliers,
 * which are signed, are added first, and what is left of them after a shift by 16 to the products with their upper halves. y may be a or b. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "pillion/assembly.h"

typedef pillion_wide_add_mve_params params;

PILLION_AT(pillion_wide_add_mve_params, count, offsetof(pillion_wide_add_mve_params, a_low) - 24);
PILLION_FIELDS_AT(pillion_wide_add_mve_params, offsetof(pillion_wide_add_mve_params, a_low) + 4, a_high, b_low, b_high);

#define FOUR(load_a, load_b, end)                                                                \
    __asm__ volatile("ldr lr, [%[at], #-24]\n"                                                  \
                     "ldrd r8, r9, [%[at]]\n"                                                   \
                     "ldrd r10, %[at], [%[at], #8]\n"                                           \
                     "wlstp.32 lr, lr, 2f\n"                                                    \
                     "1:\n" load_a load_b                                                       \
                     "vmul.i32 q2, q0, r8\n"                                                    \
                     "vmla.s32 q2, q1, r10\n"                                                   \
                     "vadd.i32 q2, q2, %q[ol]\n"                                                \
                     "vshr.s32 q2, q2, #16\n"                                                   \
                     "vmla.s32 q2, q0, r9\n"                                                    \
                     "vmla.s32 q2, q1, %[at]\n"                                                 \
                     "vadd.i32 q2, q2, %q[oh]\n"                                                \
                     "vshl.s32 q2, q2, %q[shift]\n"                                             \
                     "vqmovnb.s32 q2, q2\n" end                                                 \
                     "letp lr, 1b\n"                                                            \
                     "2:\n"                                                                     \
                     : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y), [at] "+&r"(at)                     \
                     : [ol] "w"(offset_low), [oh] "w"(offset_high), [shift] "w"(shift)          \
                     : "r8", "r9", "r10", "lr", "q0", "q1", "q2", "cc", "memory")

#define RESULT "q2"

/* Where the factors lie, and words of a sum that no register is left for. */
#define NUMBERS                                                  \
    const int32_t *at = &p->a_low;                               \
    const int32x4_t offset_low = vdupq_n_s32(p->offset_low);     \
    const int32x4_t offset_high = vdupq_n_s32(p->offset_high);   \
    const int32x4_t shift = vdupq_n_s32(p->shift)

#include "wide_rows.h"

/* The same of wide operands and results without zero points: nothing but one half is added, by VRSHL. */
static void centred(const params *p, const int16_t *a, const int16_t *b, int16_t *y) {
    const int32_t *at = &p->a_low;
    const int32x4_t shift = vdupq_n_s32(p->shift);
    __asm__ volatile("ldr lr, [%[at], #-24]\n"
                     "ldrd r8, r9, [%[at]]\n"
                     "ldrd r10, %[at], [%[at], #8]\n"
                     "wlstp.32 lr, lr, 2f\n"
                     "1:\n" WIDE("q0", "a") WIDE("q1", "b")
                     "vmul.i32 q2, q0, r8\n"
                     "vmla.s32 q2, q1, r10\n"
                     "vshr.s32 q2, q2, #16\n"
                     "vmla.s32 q2, q0, r9\n"
                     "vmla.s32 q2, q1, %[at]\n"
                     "vrshl.s32 q2, q2, %q[shift]\n"
                     "vqmovnb.s32 q2, q2\n" TO_WIDE
                     "letp lr, 1b\n"
                     "2:\n"
                     : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y), [at] "+&r"(at)
                     : [shift] "w"(shift)
                     : "r8", "r9", "r10", "lr", "q0", "q1", "q2", "cc", "memory");
}

void pillion_wide_add_mve(const params *p, const void *a, const void *b, void *y, void *scratch) {
    (void)scratch;
    const int32_t is_half = p->offset_low == 0 && p->shift < 0 && p->offset_high == 1 << (-p->shift - 1);
    if (is_half && (p->b_bytes & p->y_bytes) == 2) {
        const int16_t *first = a, *second = b;
        int16_t *to = y;
        for (int32_t row = 0; row < p->rows; row++, first += p->a_row_step, second += p->b_row_step, to += p->count) {
            centred(p, first, second, to);
        }
    } else {
        wide_rows(p, a, b, y);
    }
    wide_clamp(p, y);
}

#endif

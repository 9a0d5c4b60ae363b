/* SPDX-License-Identifier: Apache-2.0
 * Sums in 16 bits, four elements at a time. A sum of products has up to 48 bits: products with the lower halves of both multipliers,
 * which are signed, are added first, and what is left of them after a shift by 16 to the products with their upper halves. y may be a or b. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "pillion/assembly.h"

typedef pillion_wide_add_mve_params params;

PILLION_AT(pillion_wide_add_mve_params, count, offsetof(pillion_wide_add_mve_params, a_low) - 24);
PILLION_AT(pillion_wide_add_mve_params, a_high, offsetof(pillion_wide_add_mve_params, a_low) + 4);
PILLION_AT(pillion_wide_add_mve_params, b_low, offsetof(pillion_wide_add_mve_params, a_low) + 8);
PILLION_AT(pillion_wide_add_mve_params, b_high, offsetof(pillion_wide_add_mve_params, a_low) + 12);

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
                     : [a] "+l"(a), [b] "+l"(b), [y] "+l"(y), [at] "+r"(at)                     \
                     : [ol] "w"(offset_low), [oh] "w"(offset_high), [shift] "w"(shift)          \
                     : "r8", "r9", "r10", "lr", "q0", "q1", "q2", "cc", "memory")

#define WIDE(q, x) "vldrh.s32 " q ", [%[" x "]], #8\n"
#define BYTES(q, x) "vldrb.s32 " q ", [%[" x "]], #4\n"
#define TO_WIDE "vstrh.32 q2, [%[y]], #8\n"
#define TO_BYTES "vqmovnb.s16 q2, q2\n" "vstrb.32 q2, [%[y]], #4\n"

/* Where the factors lie, and words of a sum that no register is left for. */
#define NUMBERS                                                  \
    const int32_t *at = &p->a_low;                               \
    const int32x4_t offset_low = vdupq_n_s32(p->offset_low);     \
    const int32x4_t offset_high = vdupq_n_s32(p->offset_high);   \
    const int32x4_t shift = vdupq_n_s32(p->shift)

static void of_two_wide(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    NUMBERS;
    if (p->y_bytes == 2) {
        FOUR(WIDE("q0", "a"), WIDE("q1", "b"), TO_WIDE);
    } else {
        FOUR(WIDE("q0", "a"), WIDE("q1", "b"), TO_BYTES);
    }
}

static void of_one_wide(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    NUMBERS;
    if (p->y_bytes == 2) {
        FOUR(WIDE("q0", "a"), BYTES("q1", "b"), TO_WIDE);
    } else {
        FOUR(WIDE("q0", "a"), BYTES("q1", "b"), TO_BYTES);
    }
}

static void of_bytes(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    NUMBERS;
    FOUR(BYTES("q0", "a"), BYTES("q1", "b"), TO_WIDE);
}

void pillion_wide_add_mve(const params *p, const void *a, const void *b, void *y, void *scratch) {
    const int8_t *from_a = a, *from_b = b;
    int8_t *to = y;
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        if (p->b_bytes == 2) {
            of_two_wide(p, from_a, from_b, to);
        } else if (p->a_bytes == 2) {
            of_one_wide(p, from_a, from_b, to);
        } else {
            of_bytes(p, from_a, from_b, to);
        }
        from_a += p->a_row_step * p->a_bytes;
        from_b += p->b_row_step * p->b_bytes;
        to += p->count * p->y_bytes;
    }
}

#endif

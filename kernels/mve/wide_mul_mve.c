/* SPDX-License-Identifier: Apache-2.0
 * Products in 16 bits, four elements at a time: the upper word of 64 bits, rounded half up, is one instruction. y may be a or b. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

typedef pillion_wide_mul_mve_params params;

#define FOUR(load_a, load_b, end)                                                              \
    __asm__ volatile("wlstp.32 lr, %[count], 2f\n"                                             \
                     "1:\n" load_a load_b                                                      \
                     "vsub.i32 q0, q0, %[a_zp]\n"                                              \
                     "vsub.i32 q1, q1, %[b_zp]\n"                                              \
                     "vmul.i32 q0, q0, %[multiplier]\n"                                        \
                     "vshl.s32 q1, q1, %q[left]\n"                                             \
                     "vrmulh.s32 q0, q0, q1\n"                                                 \
                     "vadd.i32 q0, q0, %q[out_zp]\n"                                           \
                     "vqmovnb.s32 q0, q0\n" end                                                \
                     "letp lr, 1b\n"                                                           \
                     "2:\n"                                                                    \
                     : [a] "+l"(a), [b] "+l"(b), [y] "+l"(y)                                   \
                     : [count] "r"(p->count), [a_zp] "r"(p->a_zp), [b_zp] "r"(p->b_zp),        \
                       [multiplier] "r"(p->multiplier), [left] "w"(left), [out_zp] "w"(out_zp) \
                     : "lr", "q0", "q1", "cc", "memory")

#define WIDE(q, x) "vldrh.s32 " q ", [%[" x "]], #8\n"
#define BYTES(q, x) "vldrb.s32 " q ", [%[" x "]], #4\n"
#define TO_WIDE "vstrh.32 q0, [%[y]], #8\n"
#define TO_BYTES "vqmovnb.s16 q0, q0\n" "vstrb.32 q0, [%[y]], #4\n"

/* Words for which no register is left. */
#define VECTORS                                         \
    const int32x4_t left = vdupq_n_s32(p->left);        \
    const int32x4_t out_zp = vdupq_n_s32(p->out_zp)

static void of_two_wide(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    VECTORS;
    if (p->y_bytes == 2) {
        FOUR(WIDE("q0", "a"), WIDE("q1", "b"), TO_WIDE);
    } else {
        FOUR(WIDE("q0", "a"), WIDE("q1", "b"), TO_BYTES);
    }
}

static void of_one_wide(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    VECTORS;
    if (p->y_bytes == 2) {
        FOUR(WIDE("q0", "a"), BYTES("q1", "b"), TO_WIDE);
    } else {
        FOUR(WIDE("q0", "a"), BYTES("q1", "b"), TO_BYTES);
    }
}

static void of_bytes(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    VECTORS;
    FOUR(BYTES("q0", "a"), BYTES("q1", "b"), TO_WIDE);
}

void pillion_wide_mul_mve(const params *p, const void *a, const void *b, void *y, void *scratch) {
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

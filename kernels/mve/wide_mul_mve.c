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
                     : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y)                                   \
                     : [count] "r"(p->count), [a_zp] "r"(p->a_zp), [b_zp] "r"(p->b_zp),        \
                       [multiplier] "r"(p->multiplier), [left] "w"(left), [out_zp] "w"(out_zp) \
                     : "lr", "q0", "q1", "cc", "memory")

#define RESULT "q0"

/* Words for which no register is left. */
#define NUMBERS                                         \
    const int32x4_t left = vdupq_n_s32(p->left);        \
    const int32x4_t out_zp = vdupq_n_s32(p->out_zp)

#include "wide_rows.h"

void pillion_wide_mul_mve(const params *p, const void *a, const void *b, void *y, void *scratch) {
    (void)scratch;
    wide_rows(p, a, b, y);
    wide_clamp(p, y);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Products in 16 bits, eight elements at a time: the upper word of the product of 32 bits and the factor of the scales, rounded half up, is one
 * instruction. 16-bit tensors have zero point 0. y may be a or b. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

typedef pillion_mul_s16_mve_params params;

#define WIDE(q, x) "vldrh.u16 " q ", [%[" x "]], #16\n"
#define BYTES(q, x) "vldrb.s16 " q ", [%[" x "]], #8\n" "vsub.i16 " q ", " q ", %[" x "_zp]\n"
#define TO_WIDE "vstrh.16 q2, [%[y]], #16\n"
#define TO_BYTES "vqadd.s16 q2, q2, %[out_zp]\n" "vqmovnb.s16 q2, q2\n" "vstrb.16 q2, [%[y]], #8\n"
#define FOUR(load_a, load_b, end)                                                          \
    __asm__ volatile("wlstp.16 lr, %[count], 2f\n"                                         \
                     "1:\n" load_a load_b                                                  \
                     "vmullb.s16 q2, q0, q1\n"                                             \
                     "vmullt.s16 q3, q0, q1\n"                                             \
                     "vrmulh.s32 q2, q2, %q[factor]\n"                                     \
                     "vrmulh.s32 q3, q3, %q[factor]\n"                                     \
                     "vqmovnb.s32 q2, q2\n"                                                \
                     "vqmovnt.s32 q2, q3\n" end                                            \
                     "letp lr, 1b\n"                                                       \
                     "2:\n"                                                                \
                     : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y)                            \
                     : [count] "r"(p->count), [a_zp] "r"(p->a_zp), [b_zp] "r"(p->b_zp),    \
                       [out_zp] "r"(p->out_zp), [factor] "w"(factor)                       \
                     : "lr", "q0", "q1", "q2", "q3", "cc", "memory")
#define NUMBERS const int32x4_t factor = vdupq_n_s32(p->multiplier << p->left)

#include "wide_rows.h"

void pillion_mul_s16_mve(const params *p, const void *a, const void *b, void *y, void *scratch) {
    (void)scratch;
    wide_rows(p, a, b, y);
    wide_clamp(p, y);
}

#endif

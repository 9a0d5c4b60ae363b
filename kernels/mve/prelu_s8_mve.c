/* SPDX-License-Identifier: Apache-2.0
 * A leaky relu with a slope for each element of a row, four elements at a time: both halves of the function are computed.
 * A ratio of scales above a half takes a shift to the left before the multiplication, any other one to the right after it, with
 * the number of the sign fix as in README.md. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"

PILLION_FIELDS_AT(pillion_prelu_s8_mve_params, 8, multiplier, slope_multiplier, right, slope_right, left, slope_left,
                  fix, slope_fix, in_zp, slope_zp, out_zp);

#define SCALE(q, multiplier, left, fix, right)    \
    "vshl.s32 " q ", " left "\n"                  \
    "vqrdmulh.s32 " q ", " q ", " multiplier "\n" \
    "vqdmlah.s32 " q ", " q ", " fix "\n"         \
    "vrshl.s32 " q ", " q ", " right "\n"

static void row(const pillion_prelu_s8_mve_params *p, const int8_t *x, const int8_t *slope, int8_t *y) {
    __asm__ volatile(
        "ldrd r4, r5, [%[p], #8]\n" /* multipliers */
        "vdup.32 q4, r4\n"
        "vdup.32 q5, r5\n"
        "ldrd r4, r5, [%[p], #16]\n" /* shifts to the right */
        "vdup.32 q6, r4\n"
        "vdup.32 q7, r5\n"
        "ldr r4, [%[p], #48]\n" /* out_zp */
        "vdup.16 q3, r4\n"
        "ldrd r4, r5, [%[p], #24]\n"   /* to the left */
        "ldrd r8, r9, [%[p], #32]\n"   /* fixes */
        "ldrd r10, r12, [%[p], #40]\n" /* in_zp, slope_zp */
        "wlstp.32 lr, %[count], 2f\n"
        "1:\n"
        "vldrb.s32 q0, [%[x]], #4\n"
        "vldrb.s32 q1, [%[slope]], #4\n"
        "vsub.i32 q0, q0, r10\n"
        "vsub.i32 q1, q1, r12\n"
        "vmul.i32 q1, q1, q0\n"
        "vmov q2, q0\n" SCALE("q2", "q4", "r4", "r8", "q6") SCALE("q1", "q5", "r5", "r9", "q7")
        "vcmp.s32 ge, q0, zr\n"
        "vpsel q0, q2, q1\n"
        "vqmovnb.s32 q0, q0\n"
        "vqadd.s16 q0, q0, q3\n"
        "vqmovnb.s16 q0, q0\n"
        "vstrb.32 q0, [%[y]], #4\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [slope] "+&l"(slope), [y] "+&l"(y)
        : [p] "r"(p), [count] "r"(p->count)
        : "r4", "r5", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

void pillion_prelu_s8_mve(const pillion_prelu_s8_mve_params *p, const int8_t *x, const int8_t *slope, int8_t *y,
                          void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        row(p, x, slope, y);
    }
}

#endif

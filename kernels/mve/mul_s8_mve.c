/* SPDX-License-Identifier: Apache-2.0
 * The product of two numbers, at the scale of the result, eight elements at a time. Requantization as in README.md: the
 * number of the sign fix is 0 where there is no right shift. Rows of b may be the same for all rows of a. y may be either operand. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "pillion/assembly.h"

PILLION_AT(pillion_mul_s8_mve_params, count, offsetof(pillion_mul_s8_mve_params, a_zp) - 12);
PILLION_FIELDS_AT(pillion_mul_s8_mve_params, offsetof(pillion_mul_s8_mve_params, a_zp), a_zp, b_zp, multiplier, shift,
                  out_zp, fix);

#define REQUANTIZE(q)              \
    "vqrdmulh.s32 " q ", " q ", r6\n" \
    "vqdmlah.s32 " q ", " q ", r10\n" \
    "vrshl.s32 " q ", r8\n"

/* Eight at a time, with products of the even and of the odd elements; then four. */
static void row(const pillion_mul_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    __asm__ volatile(
        "ldrd r4, r5, [%3]\n" /* a_zp, b_zp */
        "ldrd r6, r8, [%3, #8]\n" /* multiplier, shift */
        "ldrd r9, r10, [%3, #16]\n" /* out_zp, fix */
        "ldr lr, [%3, #-12]\n" /* count */
        "lsr lr, lr, #3\n"
        "wls lr, lr, 2f\n"
        "1: vldrb.s16 q0, [%0], #8\n"
        "vldrb.s16 q1, [%1], #8\n"
        "vsub.i16 q0, q0, r4\n"
        "vsub.i16 q1, q1, r5\n"
        "vmullb.s16 q2, q0, q1\n"
        "vmullt.s16 q3, q0, q1\n" REQUANTIZE("q2") REQUANTIZE("q3")
        "vqmovnb.s32 q2, q2\n"
        "vqmovnt.s32 q2, q3\n"
        "vqadd.s16 q2, q2, r9\n"
        "vqmovnb.s16 q2, q2\n"
        "vstrb.16 q2, [%2], #8\n"
        "le lr, 1b\n"
        "2: ldr lr, [%3, #-12]\n"
        "and lr, lr, #7\n"
        "wlstp.32 lr, lr, 4f\n"
        "3: vldrb.s32 q0, [%0], #4\n"
        "vldrb.s32 q1, [%1], #4\n"
        "vsub.i32 q0, q0, r4\n"
        "vsub.i32 q1, q1, r5\n"
        "vmul.i32 q0, q0, q1\n" REQUANTIZE("q0")
        "vqmovnb.s32 q0, q0\n"
        "vqadd.s16 q0, q0, r9\n"
        "vqmovnb.s16 q0, q0\n"
        "vstrb.32 q0, [%2], #4\n"
        "letp lr, 3b\n"
        "4:\n"
        : "+&l"(a), "+&l"(b), "+&l"(y)
        : "r"(&p->a_zp)
        : "r4", "r5", "r6", "r8", "r9", "r10", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

void pillion_mul_s8_mve(const pillion_mul_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    int8_t *out = y;
    for (int32_t i = 0; i < p->rows; i++, a += p->a_row_step, b += p->b_row_step, out += p->count) {
        row(p, a, b, out);
    }
    pillion_mve_clamp(y, p->rows * p->count, p->low, p->high);
}

#endif

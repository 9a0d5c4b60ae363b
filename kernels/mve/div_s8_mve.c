/* SPDX-License-Identifier: Apache-2.0
 * Quotients as products with a factor for each divisor, four elements at a time: VRMULH shifts them to the right by 32, rounded half up. y may
 * be either operand. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

#define QUOTIENTS(factors)                         \
    "1: vldrb.s32 q0, [%[a]], #4\n" factors        \
    "vshl.i32 q0, q0, #9\n"                        \
    "vsub.i32 q0, q0, %[a_zp]\n"                   \
    "vrmulh.s32 q0, q0, q2\n"                      \
    "vadd.i32 q0, q0, %[out_zp]\n"                 \
    "vqmovnb.s32 q0, q0\n"                         \
    "vqmovnb.s16 q0, q0\n"                         \
    "vstrb.32 q0, [%[y]], #4\n"                    \
    "letp lr, 1b\n"                                \
    "2:\n"

/* A row with a divisor for each element. */
static void row(const pillion_div_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    __asm__ volatile(
        "wlstp.32 lr, %[count], 2f\n"
        QUOTIENTS("vldrb.u32 q1, [%[b]], #4\n"
                  "vldrw.u32 q2, [%[factors], q1, uxtw #2]\n")
        : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y)
        : [count] "r"(p->count), [factors] "r"(p->factors), [a_zp] "r"(p->a_zp * 512), [out_zp] "r"(p->out_zp)
        : "lr", "q0", "q1", "q2", "cc", "memory");
}

/* A row with one divisor. */
static void row_by_one(const pillion_div_s8_mve_params *p, const int8_t *a, int8_t b, int8_t *y) {
    __asm__ volatile(
        "vdup.32 q2, %[factor]\n"
        "wlstp.32 lr, %[count], 2f\n"
        QUOTIENTS("")
        : [a] "+&l"(a), [y] "+&l"(y)
        : [count] "r"(p->count), [factor] "r"(p->factors[(uint8_t)b]), [a_zp] "r"(p->a_zp * 512), [out_zp] "r"(p->out_zp)
        : "lr", "q0", "q2", "cc", "memory");
}

void pillion_div_s8_mve(const pillion_div_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    int8_t *out = y;
    for (int32_t i = 0; i < p->rows; i++, a += p->a_row_step, b += p->b_row_step, out += p->count) {
        if (p->b_step) {
            row(p, a, b, out);
        } else {
            row_by_one(p, a, *b, out);
        }
    }
    pillion_mve_clamp(y, p->rows * p->count, p->low, p->high);
}

#endif

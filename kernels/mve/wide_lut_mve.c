/* SPDX-License-Identifier: Apache-2.0
 * A function of one number of 16 bits, four elements at a time: two gathers for the ends of a line. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_wide_lut_mve(const pillion_wide_lut_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    __asm__ volatile(
        "vmov.i32 q4, #255\n"
        "wlstp.32 lr, %[count], 2f\n"
        "1:\n"
        "vldrh.s32 q0, [%[x]], #8\n"
        "vadd.i32 q0, q0, %[half]\n"
        "vshr.u32 q1, q0, #8\n"
        "vldrh.s32 q2, [%[table], q1, uxtw #1]\n"
        "vldrh.s32 q3, [%[next], q1, uxtw #1]\n"
        "vand q0, q0, q4\n"
        "vsub.i32 q3, q3, q2\n"
        "vmul.i32 q3, q3, q0\n"
        "vrshr.s32 q3, q3, #8\n"
        "vadd.i32 q2, q2, q3\n"
        "vstrh.32 q2, [%[y]], #8\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [y] "+&l"(y)
        : [count] "r"(p->count), [table] "r"(p->table), [next] "r"(p->table + 1), [half] "r"(32768)
        : "lr", "q0", "q1", "q2", "q3", "q4", "cc", "memory");
}

#endif

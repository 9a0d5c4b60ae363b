/* SPDX-License-Identifier: Apache-2.0
 * A function of one number of 16 bits, eight elements at a time: two gathers for the ends of a line. VQRDMULH of the height of a line and of 128
 * times the place on it is their product over 256, rounded half up. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_wide_lut_mve(const pillion_wide_lut_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    __asm__ volatile(
        "wlstp.16 lr, %[count], 2f\n"
        "1:\n"
        "vldrh.u16 q0, [%[x]], #16\n"
        "vadd.i16 q1, q0, %[half]\n"
        "vshr.u16 q1, q1, #8\n"
        "vldrh.u16 q2, [%[table], q1, uxtw #1]\n"
        "vldrh.u16 q3, [%[next], q1, uxtw #1]\n"
        "vshl.i16 q0, q0, #8\n"
        "vshr.u16 q0, q0, #1\n"
        "vsub.i16 q3, q3, q2\n"
        "vqrdmulh.s16 q3, q3, q0\n"
        "vadd.i16 q2, q2, q3\n"
        "vstrh.16 q2, [%[y]], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&r"(x), [y] "+&r"(y)
        : [count] "r"(p->count), [table] "r"(p->table), [next] "r"(p->table + 1), [half] "r"(32768)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A table of 256 entries, sixteen look-ups at a time by one gather. The table is in the order of x as an unsigned byte.
 * y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_lut_s8_mve(const pillion_lut_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    __asm__ volatile(
        "wlstp.8 lr, %2, 2f\n"
        "1: vldrb.u8 q0, [%0], #16\n"
        "vldrb.u8 q1, [%3, q0]\n"
        "vstrb.8 q1, [%1], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(x), "+&r"(y)
        : "r"(p->count), "r"(p->table)
        : "lr", "q0", "q1", "cc", "memory");
}

#endif

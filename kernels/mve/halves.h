/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PILLION_MVE_HALVES_H
#define PILLION_MVE_HALVES_H

#include <stdint.h>

/* y = clamp(x, low, high); y may be x. */
static inline void pillion_mve_clamp_to(int16_t *y, const int16_t *x, int32_t count, int32_t low, int32_t high) {
    __asm__ volatile(
        "vdup.16 q1, %[low]\n"
        "vdup.16 q2, %[high]\n"
        "wlstp.16 lr, %[count], 2f\n"
        "1: vldrh.u16 q0, [%[x]], #16\n"
        "vmax.s16 q0, q0, q1\n"
        "vmin.s16 q0, q0, q2\n"
        "vstrh.16 q0, [%[y]], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : [y] "+&l"(y), [x] "+&l"(x)
        : [low] "r"(low), [high] "r"(high), [count] "r"(count)
        : "lr", "q0", "q1", "q2", "cc", "memory");
}

/* The fused output range, in place; the kernels saturate to 16 bits. */
static inline void pillion_mve_clamp_16(int16_t *y, int32_t count, int32_t low, int32_t high) {
    if (low > INT16_MIN || high < INT16_MAX) {
        pillion_mve_clamp_to(y, y, count, low, high);
    }
}

#endif

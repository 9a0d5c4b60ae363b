/* SPDX-License-Identifier: Apache-2.0
 * Statistics of windows of 16-bit elements: eight of them at a time have their sums and extremes, four their fourth powers.
 * Registers: r2 and r3 a sum of 64 bits, q0 the elements, lr the remaining ones. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

typedef int16_t element;
#include "pillion/window_statistic.h"

static window_sums sums_of(const int16_t *x, int32_t count) {
    int16x8_t least = vdupq_n_s16(x[0]), most = least;
    int32_t sum = 0;
    register uint32_t low __asm__("r2") = 0;
    register uint32_t high __asm__("r3") = 0;
    __asm__ volatile(
        "dlstp.16 lr, %[count]\n"
        "1: vldrh.u16 q0, [%[x]], #16\n"
        "vaddva.s16 %[sum], q0\n"
        "vmlaldava.s16 %[low], %[high], q0, q0\n"
        "vmin.s16 %q[least], %q[least], q0\n"
        "vmax.s16 %q[most], %q[most], q0\n"
        "letp lr, 1b\n"
        : [x] "+&l"(x), [sum] "+&Te"(sum), [low] "+&r"(low), [high] "+&r"(high), [least] "+&w"(least), [most] "+&w"(most)
        : [count] "r"(count)
        : "lr", "q0", "cc", "memory");
    return (window_sums){(int64_t)((uint64_t)high << 32 | low), sum, vminvq_s16(INT16_MAX, least), vmaxvq_s16(INT16_MIN, most)};
}

static uint64_t fourth_powers(const int16_t *x, int32_t count, uint32_t factor, uint32_t start) {
    const int32x4_t factors = vdupq_n_s32((int32_t)factor);
    register uint32_t low __asm__("r2") = 0;
    register uint32_t high __asm__("r3") = 0;
    __asm__ volatile(
        "dlstp.32 lr, %[count]\n"
        "1: vldrh.s32 q0, [%[x]], #8\n"
        "vmlas.s32 q0, %q[factors], %[start]\n"
        "vrmulh.s32 q0, q0, q0\n"
        "vmlaldava.u32 %[low], %[high], q0, q0\n"
        "letp lr, 1b\n"
        : [x] "+&l"(x), [low] "+&r"(low), [high] "+&r"(high)
        : [count] "r"(count), [factors] "w"(factors), [start] "r"(start)
        : "lr", "q0", "cc", "memory");
    return (uint64_t)high << 32 | low;
}

void pillion_window_statistic_s16_mve(const pillion_window_statistic_s16_mve_params *p, const int16_t *x, int16_t *y,
                                      void *scratch) {
    (void)scratch;
    all_windows(p, x, y);
}
#endif

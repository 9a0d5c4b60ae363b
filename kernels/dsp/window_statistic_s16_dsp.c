/* SPDX-License-Identifier: Apache-2.0
 * Statistics of windows of 16-bit elements: two of them at a time have their sum, the sum of their squares and their extremes in
 * six instructions. */
#include "dot.h"

#if PILLION_HAS_DSP
typedef int16_t element;
#include "pillion/window_statistic.h"

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

#define PAIR                                     \
    "ldr %[pair], [%[x]], #4\n\t"                \
    "smlad %[sum], %[pair], %[ones], %[sum]\n\t" \
    "smlald %[low], %[high], %[pair], %[pair]\n\t" \
    "ssub16 %[unused], %[pair], %[highs]\n\t"    \
    "sel %[highs], %[pair], %[highs]\n\t"        \
    "ssub16 %[unused], %[lows], %[pair]\n\t"     \
    "sel %[lows], %[pair], %[lows]\n\t"

static window_sums sums_of(const int16_t *x, int32_t count) {
    uint32_t low = 0, high = 0, lows = (uint16_t)x[0] * UINT32_C(0x10001), highs = lows, pair, unused;
    int32_t sum = 0;
    for (; count >= 4; count -= 4) {
        __asm volatile(PAIR PAIR
                       : [x] "+&r"(x), [sum] "+&r"(sum), [low] "+&r"(low), [high] "+&r"(high), [highs] "+&r"(highs),
                         [lows] "+&r"(lows), [pair] "=&r"(pair), [unused] "=&r"(unused)
                       : [ones] "r"(0x00010001)
                       : "memory");
    }
    window_sums found = {(int64_t)((uint64_t)high << 32 | low), sum, least((int16_t)lows, (int32_t)lows >> 16),
                         most((int16_t)highs, (int32_t)highs >> 16)};
    for (; count > 0; count--, x++) {
        found.sum += *x;
        found.squares += *x * *x;
        found.least = least(found.least, *x);
        found.most = most(found.most, *x);
    }
    return found;
}

#define FOURTH_POWER                               \
    "ldrsh %[term], [%[x]], #2\n\t"                \
    "mla %[term], %[term], %[factor], %[start]\n\t" \
    "smmulr %[term], %[term], %[term]\n\t"         \
    "umlal %[low], %[high], %[term], %[term]\n\t"
#define FOURTH_POWERS(text)                                                                  \
    __asm volatile(text : [x] "+&r"(x), [low] "+&r"(low), [high] "+&r"(high), [term] "=&r"(term) \
                   : [factor] "r"(factor), [start] "r"(start)                                \
                   : "memory")

static uint64_t fourth_powers(const int16_t *x, int32_t count, uint32_t factor, uint32_t start) {
    uint32_t low = 0, high = 0, term;
    for (; count >= 4; count -= 4) {
        FOURTH_POWERS(FOURTH_POWER FOURTH_POWER FOURTH_POWER FOURTH_POWER);
    }
    for (; count > 0; count--) {
        FOURTH_POWERS(FOURTH_POWER);
    }
    return (uint64_t)high << 32 | low;
}

void pillion_window_statistic_s16_dsp(const pillion_window_statistic_s16_dsp_params *p, const int16_t *x, int16_t *y,
                                      void *scratch) {
    (void)scratch;
    all_windows(p, x, y);
}
#endif

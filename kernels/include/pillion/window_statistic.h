/* SPDX-License-Identifier: Apache-2.0
 * Statistics of windows: from sums to results. Definition: ops/window_statistic.py. For kernels that say before what an `element`
 * is, and after that how `sums_of` a window and its `fourth_powers` are computed. */
#include "pillion/normalize.h"

typedef struct {
    int64_t squares;
    int32_t sum, least, most;
} window_sums;

static window_sums sums_of(const element *x, int32_t count);

/* The sum of squared squares of x * factor + start, modulo 2^32; squares are rounded to their upper words. */
static uint64_t fourth_powers(const element *x, int32_t count, uint32_t factor, uint32_t start);

enum { DEVIATION, PEAK, CREST, KURTOSIS };

/* At most 31 bits, and by how many they moved. */
PILLION_APART uint32_t narrow(uint64_t value, int32_t *moved) {
    for (; value >> 39; value >>= 8) {
        *moved += 8;
    }
    for (; value >> 31; value >>= 1) {
        *moved += 1;
    }
    return (uint32_t)value;
}

/* The sum of fourth powers of deviations, the largest of which has 28 bits, and its exponent. */
static uint64_t fourth_moment(const element *x, int32_t count, int32_t sum, uint32_t peak, int32_t *exponent) {
    int32_t whole = sum / count, rest = sum % count, places = 12;
    if (rest < 0) {
        whole--;
        rest += count;
    }
    const uint32_t mean = (uint32_t)whole << 16 | ((uint32_t)rest << 16) / (uint32_t)count;
    for (uint32_t largest = peak / (uint32_t)count; largest > 0; largest >>= 1) {
        places--;
    }
    const uint32_t moved = places < 0 ? (uint32_t)((int32_t)mean >> -places) : mean << places;
    *exponent = -4 * places;
    return fourth_powers(x, count, UINT32_C(1) << (16 + places), 0u - moved);
}

static int32_t statistic_of(const pillion_window_statistic_s16_params *p, const element *x) {
    const int32_t count = p->samples;
    const window_sums found = sums_of(x, count);
    const uint64_t variance = (uint64_t)(count * found.squares - (int64_t)found.sum * found.sum);
    const uint32_t above = (uint32_t)(count * found.most - found.sum), below = (uint32_t)(found.sum - count * found.least);
    const uint32_t peak = above > below ? above : below;
    int32_t halves, exponent = 0;
    if (variance == 0) {
        return p->out_zp;
    }
    uint64_t mantissa = peak;
    uint32_t factor = 1;
    if (p->statistic != PEAK) {
        factor = (uint32_t)pillion_reciprocal_root(variance, &halves);
        if (p->statistic == KURTOSIS) {
            const uint64_t square = ((uint64_t)factor * factor) >> 29;
            mantissa = fourth_moment(x, count, found.sum, peak, &exponent);
            factor = (uint32_t)((square * square) >> 31);
            exponent -= 4 * halves;
        } else {
            mantissa = p->statistic == CREST ? peak : variance;
            exponent = -halves;
        }
    }
    mantissa = narrow(mantissa, &exponent);
    mantissa = narrow(mantissa * factor, &exponent);
    const int32_t right = pillion_clamp(31 - p->shift - exponent, 1, 63);
    return pillion_clamp(pillion_multiply_once((int32_t)mantissa, p->multiplier, right) + p->out_zp, p->low, p->high);
}

static void all_windows(const pillion_window_statistic_s16_params *p, const element *x, element *y) {
    for (int32_t n = 0; n < p->windows; n++, x += p->samples) {
        y[n] = (element)statistic_of(p, x);
    }
}

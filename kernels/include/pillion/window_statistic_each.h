/* SPDX-License-Identifier: Apache-2.0
 * The portable sums of windows, of elements of 8 and of 16 bits: for kernels that say before what an `element` is. */
#include "pillion/window_statistic.h"

static window_sums sums_of(const element *x, int32_t count) {
    window_sums found = {0, 0, x[0], x[0]};
    for (int32_t i = 0; i < count; i++) {
        found.sum += x[i];
        found.squares += x[i] * x[i];
        found.least = x[i] < found.least ? x[i] : found.least;
        found.most = x[i] > found.most ? x[i] : found.most;
    }
    return found;
}

static uint64_t fourth_powers(const element *x, int32_t count, uint32_t factor, uint32_t start) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int64_t deviation = (int32_t)((uint32_t)x[i] * factor + start);
        const uint64_t square = (uint64_t)(deviation * deviation + (INT64_C(1) << 31)) >> 32;
        sum += square * square;
    }
    return sum;
}

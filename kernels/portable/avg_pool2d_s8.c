/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/requantize.h"

/* Half away from zero. */
PILLION_INLINE int32_t mean_of(int32_t sum, int32_t taps) {
    const int32_t half = taps / 2;
    return (sum < 0 ? sum - half : sum + half) / taps;
}

#include "pillion/average.h"

void pillion_avg_pool2d_s8(const pillion_avg_pool2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_pool(p, x, y, pixel);
}

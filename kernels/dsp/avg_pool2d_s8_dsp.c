/* SPDX-License-Identifier: Apache-2.0
 * The mean of each window, half away from zero. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP
static inline int32_t mean_of(int32_t sum, int32_t count) {
    const int32_t half = count / 2;
    return (sum < 0 ? sum - half : sum + half) / count;
}

#include "average.h"

void pillion_avg_pool2d_s8_dsp(const pillion_avg_pool2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for_each_window(p, x, y, mean_of_window);
}
#endif

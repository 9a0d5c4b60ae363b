/* SPDX-License-Identifier: Apache-2.0
 * The mean of each window, half up: counted from the least number, sums are not negative. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP
enum { LEAST = -128 };

static inline int32_t mean_of(int32_t sum, int32_t count) {
    return (sum + count / 2 - LEAST * count) / count + LEAST;
}

#include "average.h"

void pillion_avg_pool2d_up_s8_dsp(const pillion_avg_pool2d_up_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for_each_window(p, x, y, mean_of_window);
}
#endif

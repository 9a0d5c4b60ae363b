/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pool16.h"

/* Sums of even and of odd channels are divided one by one, rounded half away from zero. */
static inline int16x8_t mean(const int16_t *x, int32_t rows, int32_t columns, int32_t row_step, int32_t step) {
    const int32_t taps = rows * columns, half = taps / 2;
    int32x4_t even = vdupq_n_s32(0), odd = vdupq_n_s32(0);
    for (; rows > 0; rows--, x += row_step - columns * step) {
        for (int32_t kx = columns; kx > 0; kx--, x += step) {
            const int16x8_t inputs = vldrhq_s16(x);
            even = vaddq_s32(even, vmovlbq_s16(inputs));
            odd = vaddq_s32(odd, vmovltq_s16(inputs));
        }
    }
    int32_t sums[8];
    vst1q_s32(sums, even);
    vst1q_s32(sums + 4, odd);
    for (int32_t i = 0; i < 8; i++) {
        sums[i] = (sums[i] < 0 ? sums[i] - half : sums[i] + half) / taps;
    }
    return vmovntq_s32(vreinterpretq_s16_s32(vld1q_s32(sums)), vld1q_s32(sums + 4));
}

void pillion_avg_pool2d_s16_mve(const pillion_avg_pool2d_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_pool_16(p, x, y, mean);
}

#endif

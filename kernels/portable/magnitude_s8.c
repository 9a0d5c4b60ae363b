/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_magnitude_s8(const pillion_magnitude_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                          void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t first = a[i] - p->a_zp, second = b[i] - p->b_zp;
        const int32_t sum = first * first * p->a_factor + second * second * p->b_factor;
        const int32_t *below = p->thresholds;
        for (int32_t half = 128; half > 0; half >>= 1) {
            below += below[half - 1] < sum ? half : 0;
        }
        const int32_t level = p->first + p->step * (int32_t)(below - p->thresholds);
        y[i] = (int8_t)(level > INT8_MAX ? INT8_MAX : level < INT8_MIN ? INT8_MIN : level);
    }
}

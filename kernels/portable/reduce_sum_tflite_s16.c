/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/reduce.h"
#include "pillion/requantize.h"
#include "pillion/rounding.h"

void pillion_reduce_sum_tflite_s16(const pillion_reduce_sum_tflite_s16_params *p, const int16_t *x, int16_t *y,
                                   void *scratch) {
    (void)scratch;
    int32_t at[PILLION_MAX_AXES] = {0};
    for (int32_t i = 0; i < p->results; i++) {
        int32_t inside[PILLION_MAX_AXES] = {0};
        int32_t sum = -p->count * p->in_zp;
        const int16_t *from = x;
        for (int32_t k = 0; k < p->count; k++) {
            sum += *from;
            from += pillion_walk(p->axes, p->extent, p->step, inside);
        }
        const int32_t scaled = pillion_nearest_double_within((double)sum * *p->ratio, 17);
        y[i] = (int16_t)pillion_clamp(scaled + p->out_zp, INT16_MIN, INT16_MAX);
        x += pillion_walk(p->kept_axes, p->kept_extent, p->kept_step, at);
    }
}

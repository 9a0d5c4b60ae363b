/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/softmax16.h"

static void row(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y) {
    int32_t largest = x[0], sum = 0;
    for (int32_t i = 1; i < p->count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t scaled = pillion_requantize(x[i] - largest, p->multiplier, p->shift);
        y[i] = (int16_t)pillion_look_up_16(p->exponentials, scaled < -65535 ? -32768 : scaled + 32767);
        sum += y[i];
    }
    const pillion_softmax_16_scale scale = pillion_softmax_16_scale_of(p, sum);
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t share = (y[i] * scale.inverse + (1 << (scale.right - 1))) >> scale.right;
        y[i] = (int16_t)(share > 32767 ? 32767 : share);
    }
}

void pillion_softmax_s16(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++) {
        row(p, x + n * p->count, y + n * p->count);
    }
}

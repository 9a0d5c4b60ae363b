/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

PILLION_INLINE int32_t look_up(const int16_t *table, int32_t level) {
    const int16_t *const at = table + 256 + (level >> 7);
    return at[0] + (((at[1] - at[0]) * (level & 127) + 64) >> 7);
}

static void row(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y) {
    int32_t largest = x[0], sum = 0, zeros = 0;
    for (int32_t i = 1; i < p->count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t scaled = pillion_requantize(x[i] - largest, p->multiplier, p->shift);
        y[i] = (int16_t)look_up(p->exponentials, scaled < -65535 ? -32768 : scaled + 32767);
        sum += y[i];
    }
    while (((uint32_t)sum << zeros & 0x80000000u) == 0) {
        zeros++;
    }
    const uint32_t mantissa = (((uint32_t)sum << (zeros - 1)) + (1u << 13)) >> 14;
    const int32_t level = (int32_t)mantissa - 98304;
    const int32_t inverse = look_up(p->reciprocals, level > 32767 ? 32767 : level);
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t share = (y[i] * inverse + (1 << (30 - zeros))) >> (31 - zeros);
        y[i] = (int16_t)(share > 32767 ? 32767 : share);
    }
}

void pillion_softmax_s16(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++) {
        row(p, x + n * p->count, y + n * p->count);
    }
}

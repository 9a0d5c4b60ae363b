/* SPDX-License-Identifier: Apache-2.0 */
#define MOST_SAMPLES 48
#define MOVED 0
#include "pillion/biquads.h"

static pair section(const int32_t *c, int32_t *samples, int32_t count, pair *xs, pair ys, pair *remainders) {
    return plain_section(c, samples, count, xs, ys, remainders);
}

static void widen(const int16_t *x, int32_t count, int32_t fraction, int32_t *samples) {
    plain_widen(x, count, fraction, samples);
}

static void narrow(const int32_t *samples, int32_t count, int32_t fraction, int16_t *y) {
    plain_narrow(samples, count, fraction, y);
}

void pillion_biquads_s16(const pillion_biquads_s16_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch) {
    (void)scratch;
    all_signals(p, x, past, y);
}

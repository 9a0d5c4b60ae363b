/* SPDX-License-Identifier: Apache-2.0
 * Cascades of biquads: code that the kernels share. Definition: ops/biquads.py. Before including this, a kernel says how many
 * MOST_SAMPLES it takes at a time, and by how many places MOVED its `section` leaves results in front of samples. */
#ifndef PILLION_BIQUADS_H
#define PILLION_BIQUADS_H

#include "pillion/fixed16.h"
#include "pillion/kernels.h"
#include "pillion/requantize.h"

#define MOST_SECTIONS 8
#define PLACES 28 /* of the coefficients, behind the point */

/* The last two values of a signal, or the last two remainders of a section. */
typedef struct {
    int32_t last, before;
} pair;

/* Filters samples at `xs` with a section; writes results to `ys`, and returns the last two. */
static pair section(const int32_t *c, int32_t *samples, int32_t count, pair *xs, pair ys, pair *remainders);

/* Samples with `fraction` bits behind the point, and back. */
static void widen(const int16_t *x, int32_t count, int32_t fraction, int32_t *samples);
static void narrow(const int32_t *samples, int32_t count, int32_t fraction, int16_t *y);

PILLION_APART pair plain_section(const int32_t *c, int32_t *samples, int32_t count, pair *xs, pair ys, pair *remainders) {
    const int32_t b0 = c[0], b1 = c[1], b2 = c[2], a1 = c[3], a2 = c[4], r1 = c[5], r2 = c[6];
    int32_t x1 = xs->last, x2 = xs->before, y1 = ys.last, y2 = ys.before, e1 = remainders->last, e2 = remainders->before;
    for (const int32_t *const end = samples + count; samples != end;) {
        const int32_t x = *samples;
        const int64_t sum = (int64_t)b0 * x + (int64_t)b1 * x1 + (int64_t)b2 * x2 + (int64_t)a1 * y1 + (int64_t)a2 * y2 +
                            (int64_t)r1 * e1 + (int64_t)r2 * e2;
        x2 = x1;
        x1 = x;
        y2 = y1;
        y1 = (int32_t)(sum >> PLACES);
        e2 = e1;
        e1 = (int32_t)((uint32_t)sum & ((UINT32_C(1) << PLACES) - 1));
        *samples++ = y1;
    }
    *xs = (pair){x1, x2};
    *remainders = (pair){e1, e2};
    return (pair){y1, y2};
}

PILLION_APART void plain_widen(const int16_t *x, int32_t count, int32_t fraction, int32_t *samples) {
    for (int32_t t = 0; t < count; t++) {
        samples[t] = (int32_t)x[t] * (int32_t)(1 << fraction);
    }
}

PILLION_APART void plain_narrow(const int32_t *samples, int32_t count, int32_t fraction, int16_t *y) {
    for (int32_t t = 0; t < count; t++) {
        y[t] = (int16_t)pillion_saturate16(((samples[t] >> (fraction - 1)) + 1) >> 1);
    }
}

/* All sections of some samples, one section behind the other, so that its numbers stay in registers. */
static void block(const pillion_biquads_s16_params *p, const int16_t *x, int32_t count, pair *pairs, int16_t *y) {
    int32_t words[MOVED * (MOST_SECTIONS + 1) + MOST_SAMPLES + 1], *samples = words + MOVED * (p->sections + 1);
    const int32_t sections = p->sections;
    widen(x, count, p->fraction, samples);
    for (int32_t k = 0; k < sections; k++, samples -= MOVED) {
        pair *const last = pairs + sections, *const remainders = last + 1 + k;
        const pair results = section(p->coefficients + 7 * k, samples, count, pairs + k, pairs[k + 1], remainders);
        if (k == sections - 1) {
            *last = results;
        }
    }
    narrow(samples, count, p->fraction, y);
}

static void all_signals(const pillion_biquads_s16_params *p, const int16_t *x, const int16_t *past, int16_t *y) {
    const int32_t count = 2 * p->sections + 1;
    for (int32_t n = 0; n < p->signals; n++, past += 4 * count) {
        pair pairs[2 * MOST_SECTIONS + 1]; /* of the signals, then the remainders */
        for (int32_t i = 0; i < count; i++) {
            const int16_t *words = past + 4 * i;
            pairs[i].last = (int32_t)((uint32_t)(uint16_t)words[0] << 16 | (uint16_t)words[1]);
            pairs[i].before = (int32_t)((uint32_t)(uint16_t)words[2] << 16 | (uint16_t)words[3]);
        }
        for (int32_t left = p->samples; left > 0; left -= MOST_SAMPLES) {
            const int32_t here = left < MOST_SAMPLES ? left : MOST_SAMPLES;
            block(p, x, here, pairs, y);
            x += here;
            y += here;
        }
        for (int32_t i = 0; i < count; i++, y += 4) {
            y[0] = (int16_t)(pairs[i].last >> 16);
            y[1] = (int16_t)pairs[i].last;
            y[2] = (int16_t)(pairs[i].before >> 16);
            y[3] = (int16_t)pairs[i].before;
        }
    }
}
#endif

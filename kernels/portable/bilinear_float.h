/* SPDX-License-Identifier: Apache-2.0
 * Rows of an image between two others, in float32. Of each pixel of a run the same four numbers are taken, in shares of its own.
 * Products and sums are those of the reference, in its order: a number times the share of its row, times that of its column. */
#ifndef PILLION_BILINEAR_FLOAT_H
#define PILLION_BILINEAR_FLOAT_H

#include "pillion/between_rows.h"

typedef pillion_resize_bilinear_float_s8_params params;

enum { LEAST = -128 };

static float from_least(int8_t x) {
    return (float)(x - LEAST);
}

static int8_t mixed(float a, float b, float c, float d, const float *share) {
    const float left = share[0], right = share[1];
    float sum = a * left;
    sum += b * left;
    sum += c * right;
    sum += d * right;
    return (int8_t)((int32_t)(sum + 0.5f) + LEAST);
}

/* All channels of one pixel between four pixels of the image. */
static void pixel(int32_t channels, const int8_t *a, const int8_t *b, const int8_t *c, const int8_t *d, const float *of_row,
                  const float *share, int8_t *y) {
    const float upper = of_row[0], lower = of_row[1], of_column[] = {share[0], share[1]};
    for (const int8_t *const last = a + channels; a != last;) {
        *y++ = mixed(from_least(*a++) * upper, from_least(*b++) * lower, from_least(*c++) * upper, from_least(*d++) * lower,
                     of_column);
    }
}

/* All channels of the pixels of a run. */
static void pixels(int32_t channels, const int8_t *a, const int8_t *b, const int8_t *c, const int8_t *d, const float *of_row,
                   const float *shares, const float *end, int8_t *y) {
    const float upper = of_row[0], lower = of_row[1];
    for (const int8_t *const last = a + channels; a != last; y++) {
        const float e = from_least(*a++) * upper, f = from_least(*b++) * lower;
        const float g = from_least(*c++) * upper, h = from_least(*d++) * lower;
        const float *share = shares;
        int8_t *to = y;
        do {
            *to = mixed(e, f, g, h, share);
            to += channels;
            share += 2;
        } while (share != end);
    }
}

/* One output row between two input rows. */
static int8_t *row(const params *p, const int8_t *top, const int8_t *bottom, const float *of_row, int8_t *y) {
    const float *share = p->shares, *const end = share + 2 * p->out_w;
    for (const int32_t *run = p->runs; share != end; run += 3) {
        const int32_t first = run[0] * p->channels, second = run[1] * p->channels;
        const float *const behind = share + 2 * run[2];
        if (run[2] == 1) {
            pixel(p->channels, top + first, bottom + first, top + second, bottom + second, of_row, share, y);
        } else {
            pixels(p->channels, top + first, bottom + first, top + second, bottom + second, of_row, share, behind, y);
        }
        y += run[2] * p->channels;
        share = behind;
    }
    return y;
}

#endif

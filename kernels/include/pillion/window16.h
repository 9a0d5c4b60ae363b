/* SPDX-License-Identifier: Apache-2.0
 * Code that the 16-bit layers and pools share: rounding of sums, and the walk of pools over their windows. */
#ifndef PILLION_WINDOW16_H
#define PILLION_WINDOW16_H

#include "pillion/layers16.h"
#include "pillion/requantize.h"
#include "pillion/window.h"

/* clamp(sum * multiplier / 2^right, low, high), rounded once, half up. */
PILLION_INLINE int16_t pillion_round_to_16(int64_t sum, int32_t multiplier, int32_t right, int32_t low, int32_t high) {
    const int64_t scaled = (sum * multiplier + ((int64_t)1 << (right - 1))) >> right;
    return (int16_t)(scaled < low ? low : scaled > high ? high : scaled);
}

/* The rounded result of a layer: `word` holds the multiplier in 16 bits, and above it the part of the bias beyond 32 bits. */
PILLION_INLINE int16_t pillion_round_layer_to_16(int64_t sum, int32_t word, int32_t right, int32_t low, int32_t high) {
    const int64_t scaled = ((sum + (word >> 16) * ((int64_t)1 << 32)) * (word & 0x7FFF) + ((int64_t)1 << (right - 1))) >> right;
    return (int16_t)(scaled < low ? low : scaled > high ? high : scaled);
}

/* One channel of one output pixel of a pool; x is at the first tap inside the image. */
typedef int32_t pillion_pool_16_pixel(const int16_t *x, int32_t rows, int32_t columns, int32_t row_step, int32_t step);

PILLION_INLINE void pillion_pool_16(const pillion_pool_s16_params *p, const int16_t *x, int16_t *y,
                                    pillion_pool_16_pixel *pixel) {
    const int32_t channels = p->channels, image = p->in_h * p->in_w * channels;
    for (int32_t at = 0; at < p->batch * p->out_h * p->out_w; at++) {
        const int32_t ox = at % p->out_w, oy = at / p->out_w % p->out_h, n = at / p->out_w / p->out_h;
        const int32_t top = oy * p->stride_h - p->pad_top, left = ox * p->stride_w - p->pad_left;
        const pillion_range rows = pillion_taps_inside(top, 1, p->kernel_h, p->in_h);
        const pillion_range columns = pillion_taps_inside(left, 1, p->kernel_w, p->in_w);
        const int16_t *const from = x + n * image + ((top + rows.first) * p->in_w + left + columns.first) * channels;
        for (int32_t c = 0; c < channels; c++) {
            const int32_t found = pixel(from + c, rows.last - rows.first, columns.last - columns.first, p->in_w * channels,
                                        channels);
            *y++ = (int16_t)pillion_clamp(found, p->low, p->high);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The walk of 16-bit pools over windows, eight channels at a time. */
#ifndef PILLION_MVE_POOL16_H
#define PILLION_MVE_POOL16_H

#include <arm_mve.h>

#include "pillion/mve.h"
#include "pillion/window16.h"

/* Eight channels of one output pixel; x is at the first of the taps inside the image, `rows` by `columns`. */
typedef int16x8_t pillion_mve_pool_16_eight(const int16_t *x, int32_t rows, int32_t columns, int32_t row_step, int32_t step);

static inline void pillion_mve_pool_16(const pillion_pool_s16_params *p, const int16_t *x, int16_t *y,
                                       pillion_mve_pool_16_eight *eight) {
    const int32_t channels = p->channels, row_step = p->in_w * channels;
    const int16x8_t low = vdupq_n_s16((int16_t)p->low), high = vdupq_n_s16((int16_t)p->high);
    for (int32_t at = 0; at < p->batch * p->out_h * p->out_w; at++, y += channels) {
        const int32_t row = at / p->out_w, left = at % p->out_w * p->stride_w - p->pad_left;
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const pillion_range rows = pillion_taps_inside(top, 1, p->kernel_h, p->in_h);
        const pillion_range columns = pillion_taps_inside(left, 1, p->kernel_w, p->in_w);
        const int16_t *const from = x + (row / p->out_h * p->in_h + top + rows.first) * row_step + (left + columns.first) * channels;
        for (int32_t c = 0; c < channels; c += 8) {
            const int16x8_t found = eight(from + c, rows.last - rows.first, columns.last - columns.first, row_step, channels);
            vstrhq_p_s16(y + c, vminq_s16(vmaxq_s16(found, low), high), vctp16q((uint32_t)(channels - c)));
        }
    }
}

#endif

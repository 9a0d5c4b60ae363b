/* SPDX-License-Identifier: Apache-2.0
 * Rows of an image that repeat the pixels of a row of another image. */
#ifndef PILLION_NEAREST_H
#define PILLION_NEAREST_H

#include "pillion/kernels.h"
#include "pillion/rows.h"

static inline void row_of_pixels(const pillion_resize_nearest_s8_params *p, const int8_t *row, int8_t *y) {
    const int32_t out_w = p->out_w, channels = p->channels;
    const int32_t *const columns = p->columns;
    for (int32_t ox = 0; ox < out_w; ox++, y += channels) {
        pillion_move_rows(y, row + columns[ox] * channels, (uint32_t)channels);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution of so few pixels that three at a time would mostly be done for nothing: each window is a row of a fully connected layer. */
#include "pillion/assembly.h"
#include "dot.h"

#include <string.h>

#if PILLION_HAS_DSP

PILLION_BEGINS_WITH(pillion_conv2d_lone_s8_dsp_params, pillion_linear_s8_dsp_params, windows);

/* Copies one window: pieces of neighbouring elements, kernel row by kernel row. */
static int8_t *gather(const pillion_conv2d_lone_s8_dsp_params *p, const int8_t *x, int8_t *row) {
    for (int32_t ky = 0; ky < p->kernel_rows; ky++, x += p->kernel_row_step) {
        const int8_t *from = x;
        for (int32_t i = 0; i < p->pieces; i++, from += p->piece_step, row += p->piece_bytes) {
            memcpy(row, from, (size_t)p->piece_bytes);
        }
    }
    return row;
}

void pillion_conv2d_lone_s8_dsp(const pillion_conv2d_lone_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int8_t *const rows = (int8_t *)scratch + p->gathered;
    int8_t *end = rows;
    for (int32_t oy = 0; oy < p->windows; oy++, x += p->window_row_step) {
        for (int32_t ox = 0; ox < p->row_windows; ox++) {
            end = gather(p, x + ox * p->window_step, end);
        }
    }
    pillion_linear_s8_dsp((const pillion_linear_s8_dsp_params *)(const void *)p, rows, y, scratch);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * The walk of wide.h over images, blocks of rows and groups of 16 channels. */
#include "wide.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

/* Rows from `top` on of 16 channels, with padding on the left and, where rows are outside the image, all over. */
static void load_rows(const pillion_depthwise_any_s8_mve_params *p, const int8_t *image, int32_t top, int32_t rows, int8_t *to) {
    for (int32_t row = top; row < top + rows; row++, to += p->plane_row_bytes) {
        if (row < 0 || row >= p->in_h) {
            pillion_mve_fill(to, p->in_zp, p->plane_row_bytes);
        } else {
            pillion_mve_copy_plane(to + p->left_bytes, image + row * p->in_row_bytes, p->channels, p->copy_w);
        }
    }
}

/* All channels of some rows of outputs. */
static void block(const pillion_depthwise_any_s8_mve_params *p, const int8_t *image, int8_t *y, int32_t top, int32_t rows,
                  int8_t *scratch, pillion_mve_wide_outputs outputs) {
    const int32_t *constants = p->constants;
    for (int32_t c = 0; c < p->channels; c += 16, constants += 36 + 4 * p->tap_count) {
        const int32_t left = p->channels - c;
        pillion_mve_wide_state s = {p->taps, constants, scratch, p->tap_count >> 1, y + c, p->out_w, p->out_zp, p->window_step,
                   p->channels, left < 16 ? (1 << left) - 1 : 0xFFFF, p->window_skip, rows,
                   p->low >= p->out_zp, p->plane_row_bytes};
        load_rows(p, image + c, top, (rows - 1) * p->stride_h + p->window_rows, scratch);
        outputs(&s);
    }
}

void pillion_mve_wide(const pillion_depthwise_any_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                      pillion_mve_wide_outputs outputs) {
    int8_t *out = y;
    pillion_mve_fill(scratch, p->in_zp, p->scratch_bytes);
    for (int32_t n = 0; n < p->images; n++, x += p->in_h * p->in_row_bytes) {
        for (int32_t oy = 0; oy < p->out_h; oy += p->block_rows) {
            const int32_t rows = p->out_h - oy < p->block_rows ? p->out_h - oy : p->block_rows;
            block(p, x, out, oy * p->stride_h - p->pad_top, rows, scratch, outputs);
            out += rows * p->out_w * p->channels;
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

#endif

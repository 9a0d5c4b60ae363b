/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution. Four rows of the image are zipped, so that each lane has the bytes of one channel and of four taps below
 * each other; the windows of neighbours share them. */
#include "pillion/host.h"

#include "vector.h"

typedef pillion_depthwise_conv2d_s8_host_params params;

enum { ZIPPED = PILLION_VECTOR * PILLION_REGISTERS };

/* Rows of the image, one below the other, at some channels; rows outside the image have the same bytes in each column. */
typedef struct {
    const int8_t *at[4];
    int32_t step[4];
} four_rows;

static four_rows find_rows(const params *p, const int8_t *x, const int8_t *outside, int32_t top, int32_t four) {
    four_rows rows;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t ky = 4 * four + i, row = top + ky * p->dilation_h;
        const int32_t inside = ky < p->kernel_h && row >= 0 && row < p->in_h;
        rows.at[i] = inside ? x + row * p->in_w * p->channels : outside;
        rows.step[i] = inside ? p->channels : 0;
    }
    return rows;
}

/* Zips columns of four rows; the last row may be known to be outside. `step` leads from column to column in `to`. */
PILLION_INLINE void zip_rows(const params *p, const four_rows *rows, const int8_t *outside, int32_t count, uint8_t *to,
                             int32_t real_rows, int32_t registers) {
    const pillion_vector nothing = pillion_flip_signs(pillion_load_vector(outside));
    for (int32_t column = -p->pad_left; column < p->columns - p->pad_left; column++, to += p->fours * ZIPPED) {
        pillion_vector v[4] = {nothing, nothing, nothing, nothing}, zipped[PILLION_REGISTERS] = {nothing, nothing, nothing, nothing};
        if (column >= 0 && column < p->in_w) {
            for (int32_t i = 0; i < real_rows; i++) {
                v[i] = pillion_flip_signs(pillion_load_some(rows->at[i] + column * rows->step[i], count));
            }
            pillion_zip(v, zipped);
        }
        for (int32_t r = 0; r < registers; r++) {
            pillion_store_vector(to + PILLION_VECTOR * r, zipped[r]);
        }
    }
}

/* The weights of a block of channels for one tap, or for four of them below each other. */
PILLION_INLINE const int8_t *weights_of(const params *p, int32_t first, int32_t column, int32_t four) {
    const int32_t blocks = (p->channels + PILLION_BLOCK_CHANNELS - 1) / PILLION_BLOCK_CHANNELS;
    return p->weights + 4 * ((column * p->fours + four) * blocks * PILLION_BLOCK_CHANNELS + first);
}

PILLION_INLINE void add_taps(pillion_vector *sums, const uint8_t *zipped, const pillion_vector *weights, int32_t registers) {
    for (int32_t r = 0; r < registers; r++) {
        sums[r] = pillion_add_products(sums[r], pillion_load_vector(zipped + PILLION_VECTOR * r), weights[r]);
    }
}

/* A row of the result, for `count` channels from `first` on. */
PILLION_INLINE void row_of_any(const params *p, const uint8_t *zipped, int32_t first, const pillion_scales *scales, int8_t *y,
                               int32_t rectified, int32_t registers) {
    for (int32_t ox = 0; ox < p->out_w; ox++, zipped += p->stride_w * p->fours * ZIPPED, y += p->channels) {
        pillion_vector sums[PILLION_REGISTERS], weights[PILLION_REGISTERS];
        pillion_load_all(sums, p->bias + first, registers);
        for (int32_t column = 0; column < p->kernel_w; column++) {
            for (int32_t four = 0; four < p->fours; four++) {
                pillion_load_all(weights, weights_of(p, first, column, four), registers);
                add_taps(sums, zipped + (column * p->dilation_w * p->fours + four) * ZIPPED, weights, registers);
            }
        }
        pillion_answer(scales, sums, y, rectified, registers);
    }
}

/* The same for kernels of three columns and up to four rows, whose weights stay in registers. */
PILLION_INLINE void row_of_three(const params *p, const uint8_t *zipped, int32_t first, const pillion_scales *scales,
                                 int8_t *y, int32_t rectified, int32_t registers) {
    pillion_vector bias[PILLION_REGISTERS], weights[3][PILLION_REGISTERS];
    const int32_t column_step = p->dilation_w * ZIPPED;
    pillion_load_all(bias, p->bias + first, registers);
    for (int32_t column = 0; column < 3; column++) {
        pillion_load_all(weights[column], weights_of(p, first, column, 0), registers);
    }
    for (int32_t ox = 0; ox < p->out_w; ox++, zipped += p->stride_w * ZIPPED, y += p->channels) {
        pillion_vector sums[PILLION_REGISTERS];
        for (int32_t r = 0; r < registers; r++) {
            sums[r] = bias[r];
        }
        for (int32_t column = 0; column < 3; column++) {
            add_taps(sums, zipped + column * column_step, weights[column], registers);
        }
        pillion_answer(scales, sums, y, rectified, registers);
    }
}

/* A row of the result for `count` channels from `first` on; each number of registers is compiled on its own. */
PILLION_INLINE void row(const params *p, const int8_t *x, int32_t top, const int8_t *outside, uint8_t *zipped, int32_t first,
                        int32_t count, int8_t *y, int32_t registers) {
    pillion_scales scales;
    PILLION_LOAD_SCALES(&scales, p, first, count, registers);
    if (p->kernel_w == 3 && p->kernel_h <= 3) {
        const four_rows rows = find_rows(p, x + first, outside, top, 0);
        zip_rows(p, &rows, outside, count, zipped, 3, registers);
        if (scales.rectified) {
            row_of_three(p, zipped, first, &scales, y + first, 1, registers);
        } else {
            row_of_three(p, zipped, first, &scales, y + first, 0, registers);
        }
        return;
    }
    for (int32_t four = 0; four < p->fours; four++) {
        const four_rows rows = find_rows(p, x + first, outside, top, four);
        zip_rows(p, &rows, outside, count, zipped + four * ZIPPED, 4, registers);
    }
    row_of_any(p, zipped, first, &scales, y + first, scales.rectified, registers);
}

static void some_channels(const params *p, const int8_t *x, int32_t top, const int8_t *outside, uint8_t *zipped, int32_t first,
                          int8_t *y) {
    const int32_t count = pillion_left(first, p->channels);
    switch (pillion_registers(count)) {
    case 1:
        row(p, x, top, outside, zipped, first, count, y, 1);
        break;
    case 2:
        row(p, x, top, outside, zipped, first, count, y, 2);
        break;
    case 3:
        row(p, x, top, outside, zipped, first, count, y, 3);
        break;
    default:
        row(p, x, top, outside, zipped, first, count, y, 4);
        break;
    }
}

void pillion_depthwise_conv2d_s8_host(const pillion_depthwise_conv2d_s8_host_params *p, const int8_t *x, int8_t *y,
                                      void *scratch) {
    int8_t outside[PILLION_VECTOR];
    memset(outside, p->in_zp, sizeof outside);
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->channels) {
        for (int32_t oy = 0; oy < p->out_h; oy++, y += p->out_w * p->channels) {
            for (int32_t first = 0; first < p->channels; first += PILLION_VECTOR) {
                some_channels(p, x, oy * p->stride_h - p->pad_top, outside, scratch, first, y);
            }
        }
    }
}

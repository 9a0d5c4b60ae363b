/* SPDX-License-Identifier: Apache-2.0
 * What all depthwise convolutions of planes share: the plane of a channel, and the walk over the channels.
 *
 * Who includes this defines `element`, that of image and result, COPY_LOAD and COPY_BITS (channel_copy.h). */
#ifndef PILLION_DSP_DEPTHWISE_CHANNELS_H
#define PILLION_DSP_DEPTHWISE_CHANNELS_H

#include "channel_copy.h"
#include "depthwise.h"

#if PILLION_HAS_DSP

#define TOGETHER 4 /* outputs of a row */

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static void fill(int16_t *to, int32_t count, int32_t value) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int16_t)value;
    }
}

/* Where the loop goes on: by the outputs of a row that are no whole four, and by whether negative sums matter. */
static void choose_places(pillion_dsp_channel *channel, const pillion_dsp_method *m, int32_t rest, int32_t rectified) {
    channel->fours = pillion_thumb(rectified != 0 ? m->fours_rectified : m->fours);
    channel->sums = channel->fours;
    channel->end_of_row = pillion_thumb(rest == 0 ? m->next_row : rest == 3 ? m->three_more : m->pair);
    channel->rest = pillion_thumb(rest == 3 ? m->three : rest == 2 ? m->two : m->one);
}

/* A band of rows of outputs of all channels; x and y are where the rows of the first channel begin, and `image` where they lie in the plane. */
static __attribute__((noinline)) void all_channels(pillion_dsp_channel *channel, const channel_copy *copy, int16_t *image, const element *x, element *y,
                                const pillion_dsp_method *method) {
    const pillion_depthwise_s8_dsp_params *const p = channel->layer;
    const int32_t *constants = p->constants;
    int32_t copies = 0; /* output channels that the plane is still good for */
    channel->unpacked = p->weights;
    for (int32_t c = 0; c < p->out_c; c++, constants += 3) {
        if (copies == 0) {
            copies = p->out_c / p->in_c;
            if (copy->rows > 0) {
                copy_channel(copy, x, image);
            }
            x++;
        }
        copies--;
        const int32_t twice_round = constants[1];
        channel->bias = constants[0], channel->round = twice_round >> 1, channel->multiplier = constants[2];
        channel->right = __builtin_ctz((uint32_t)twice_round);
        channel->y = y + c;
        method->expand(channel);
        method->rows(channel);
    }
}

/* Rows of the plane are columns of the image where the layer is transposed. */
static inline void convolve_channels(const pillion_depthwise_s8_dsp_params *p, const element *x, element *y, void *scratch,
                                     const pillion_dsp_method *method) {
    const int32_t rest = p->out_w % TOGETHER, whole = p->out_w - rest, outputs = whole + (rest == 0 ? 0 : rest == 3 ? 4 : 2);
    const int32_t columns = ((outputs - 1) * p->stride_w + method->reach + 2) & ~1, size = (int32_t)sizeof(element);
    const int32_t x_column = p->transposed != 0 ? p->in_h * p->in_c : p->in_c, x_row = p->transposed != 0 ? p->in_c : p->in_w * p->in_c;
    const int32_t y_column = p->transposed != 0 ? p->out_h * p->out_c : p->out_c, y_row = p->transposed != 0 ? p->out_c : p->out_w * p->out_c;
    const int32_t room = columns - p->pad_left, copied = room < 0 ? 0 : least(p->in_w, room);
    channel_copy copy = copy_of(p->in_h, copied, size * x_column, size * x_row, p->pad_left, columns);
    pillion_dsp_channel channel = {.x = scratch, .pitch = 2 * columns, .stride = size * y_column, .layer = p};
    channel.y_step = size * y_row;
    channel.row_bytes = 2 * p->stride_w * whole;
    channel.x_skip = 2 * p->stride_h * columns - channel.row_bytes;
    channel.y_skip = channel.y_step - whole * channel.stride;
    choose_places(&channel, method, rest, p->rectified);
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c, y += p->out_h * p->out_w * p->out_c) {
        for (int32_t row = 0; row < p->out_h; row += p->band) {
            channel.rows = least(p->band, p->out_h - row);
            const int32_t rows = (channel.rows - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
            const int32_t top = row * p->stride_h - p->pad_top, first = top < 0 ? 0 : top, end = least(p->in_h, top + rows);
            copy.rows = copied > 0 ? end - first : 0;
            if (n == 0 || p->band < p->out_h) {
                fill(scratch, rows * columns, p->in_zp);
            }
            int16_t *const image = (int16_t *)scratch + (first - top) * columns + p->pad_left;
            all_channels(&channel, &copy, image, x + first * x_row, y + row * y_row, method);
        }
    }
}
#endif

#endif

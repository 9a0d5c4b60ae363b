/* SPDX-License-Identifier: Apache-2.0
 * What all depthwise convolutions share: the plane of a channel, and the walk over the channels. */
#include "depthwise.h"
#include "dot.h"

typedef int8_t element;
#define COPY_LOAD "ldrsb"
#define COPY_BITS 8
#include "channel_copy.h"

#if PILLION_HAS_DSP

#define TOGETHER 4 /* outputs of a row */

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Rows of the plane are columns of the image where the layer is transposed. */
static channel_copy copy_of_layer(const pillion_depthwise_s8_dsp_params *p, int32_t plane_rows, int32_t plane_columns) {
    const int32_t step = p->transposed != 0 ? p->in_h * p->in_c : p->in_c;
    const int32_t row_step = p->transposed != 0 ? p->in_c : p->in_w * p->in_c;
    const int32_t columns = least(p->in_w, plane_columns - p->pad_left);
    return copy_of(least(p->in_h, plane_rows - p->pad_top), columns > 0 ? columns : 0, step, row_step, p->pad_left, plane_columns);
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

static void all_channels(const pillion_depthwise_s8_dsp_params *p, pillion_dsp_channel *channel, const channel_copy *copy,
                         int16_t *plane, const int8_t *x, int8_t *y, const pillion_dsp_method *method) {
    int16_t *const image = plane + p->pad_top * channel->pitch / 2 + p->pad_left;
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
        channel->unpacked += p->kernel_h * p->kernel_w;
    }
}

void pillion_dsp_depthwise(const pillion_depthwise_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                           const pillion_dsp_method *method) {
    const int32_t rest = p->out_w % TOGETHER;
    const int32_t whole = p->out_w - rest;
    const int32_t outputs = whole + (rest == 0 ? 0 : rest == 3 ? 4 : 2);
    const int32_t columns = ((outputs - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 2) & ~1;
    const int32_t rows = (p->out_h - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
    const channel_copy copy = copy_of_layer(p, rows, columns);
    fill(scratch, rows * columns, p->in_zp);
    pillion_dsp_channel channel = {.x = scratch, .pitch = 2 * columns, .rows = p->out_h, .layer = p};
    channel.stride = p->transposed != 0 ? p->out_h * p->out_c : p->out_c;
    channel.y_step = p->transposed != 0 ? p->out_c : p->out_w * p->out_c;
    channel.row_bytes = 2 * p->stride_w * whole;
    channel.x_skip = 2 * p->stride_h * columns - channel.row_bytes;
    channel.y_skip = channel.y_step - whole * channel.stride;
    choose_places(&channel, method, rest, p->rectified);
    const int32_t image_bytes = p->out_h * p->out_w * p->out_c;
    for (int32_t n = 0; n < p->batch; n++) {
        all_channels(p, &channel, &copy, scratch, x + n * p->in_h * p->in_w * p->in_c, y + n * image_bytes, method);
    }
    pillion_dsp_clamp(y, p->batch * image_bytes, p->low, p->high);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of any kernel, stride and dilation: four outputs of a row at a time from the channel's plane, by products of two taps where
 * columns are not dilated and two apart at most, else of one tap after the other. */
#define PARTS_NAME any
#include "depthwise_any.h"
#include "smmlar.h"

#if PILLION_HAS_DSP

/* The sums of four neighbouring outputs, or the first of them four times. */
static void window_sums(const pillion_dsp_channel *channel, const int16_t *x, int32_t stride, int32_t sums[4]) {
    const pillion_depthwise_s8_dsp_params *const p = channel->layer;
    const int32_t below = (p->dilation_h * channel->pitch) / 2;
    const int8_t *w = channel->unpacked - p->kernel_h * p->kernel_w;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int32_t ky = p->kernel_h; ky > 0; ky--, x += below) {
        const int16_t *tap = x;
        for (int32_t kx = p->kernel_w; kx > 0; kx--, tap += p->dilation_w) {
            const int32_t weight = *w++;
            s0 += weight * tap[0], s1 += weight * tap[stride];
            s2 += weight * tap[2 * stride], s3 += weight * tap[3 * stride];
        }
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

static void expand_nothing(pillion_dsp_channel *channel) {
    channel->unpacked += channel->layer->kernel_h * channel->layer->kernel_w;
}

static void rows_of_taps(const pillion_dsp_channel *channel) {
    const pillion_depthwise_s8_dsp_params *const p = channel->layer;
    const int16_t *top = channel->x;
    int8_t *left = channel->y;
    for (int32_t oy = 0; oy < p->out_h; oy++, top += p->stride_h * channel->pitch / 2, left += channel->y_step) {
        const int16_t *x = top;
        int8_t *y = left;
        for (int32_t ox = p->out_w; ox > 0;) {
            const int32_t together = ox >= 4 ? 4 : 1;
            int32_t sums[4];
            window_sums(channel, x, together == 4 ? p->stride_w : 0, sums);
            for (int32_t i = 0; i < together; i++, y += channel->stride) {
                const int32_t twice = channel->bias + 2 * sums[i];
                *y = (int8_t)pillion_dsp_requantize(twice, channel->round, channel->multiplier, channel->right);
            }
            ox -= together, x += together * p->stride_w;
        }
    }
}

void pillion_depthwise_any_s8_dsp(const pillion_depthwise_any_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    PILLION_DSP_METHOD(any, expand_parts, rows_of_parts, 0);
    pillion_dsp_method method = method_any;
    if (p->dilation_w == 1 && p->stride_w <= 2) {
        method.reach = reach_of_parts(p);
    } else {
        method.expand = expand_nothing, method.rows = rows_of_taps, method.reach = (p->kernel_w - 1) * p->dilation_w;
    }
    pillion_dsp_depthwise(p, x, y, scratch, &method);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of any kernel, stride and dilation: one output at a time from the channel's plane. */
#include "depthwise.h"
#include "smmlar.h"

#if PILLION_HAS_DSP

static int32_t window_sum(const pillion_depthwise_s8_dsp_params *p, const int16_t *x, int32_t below, const int8_t *w) {
    int32_t sum = 0;
    for (int32_t ky = p->kernel_h; ky > 0; ky--, x += below) {
        const int16_t *tap = x;
        for (int32_t kx = p->kernel_w; kx > 0; kx--, tap += p->dilation_w) {
            sum += *tap * *w++;
        }
    }
    return sum;
}

static void expand_nothing(pillion_dsp_channel *channel) {
    (void)channel;
}

static void rows(const pillion_dsp_channel *channel) {
    const pillion_depthwise_s8_dsp_params *const p = channel->layer;
    const int32_t row = channel->pitch / 2;
    const int16_t *top = channel->x;
    int8_t *left = channel->y;
    for (int32_t oy = 0; oy < p->out_h; oy++, top += p->stride_h * row, left += channel->y_step) {
        const int16_t *x = top;
        int8_t *y = left;
        for (int32_t ox = 0; ox < p->out_w; ox++, x += p->stride_w, y += channel->stride) {
            const int32_t twice = channel->bias + 2 * window_sum(p, x, p->dilation_h * row, channel->unpacked);
            *y = (int8_t)pillion_dsp_requantize(twice, channel->round, channel->multiplier, channel->right);
        }
    }
}

void pillion_depthwise_any_s8_dsp(const pillion_depthwise_any_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    static const pillion_dsp_method method = {.expand = expand_nothing, .rows = rows};
    pillion_dsp_depthwise(p, x, y, scratch, &method);
}
#endif

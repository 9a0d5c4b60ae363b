/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 16-bit inputs, four channels at a time, straight from the image. */
#include "dot16.h"
#include "pillion/window.h"

#include <string.h>

#if PILLION_HAS_DSP

typedef pillion_depthwise_any_s16_dsp_params params;

static inline int32_t two(const int16_t *at) {
    int32_t word;
    memcpy(&word, at, 4);
    return word;
}

static inline int16_t rounded(int32_t sum, int32_t factor) {
    __asm(ROUND_16(SIGNED, "%0", "%1") : "+&r"(sum) : "r"(factor));
    return (int16_t)sum;
}

/* The taps inside the image, `rows` by `columns`, of four channels; `left` of them are stored. Numbers: biases, then factors. */
static inline void four(const params *p, const int16_t *x, const int16_t *w, int32_t rows, int32_t columns, const int32_t *numbers,
                        int16_t *y, int32_t left) {
    const int32_t step = p->dilation_w * p->channels, x_skip = p->dilation_h * p->in_w * p->channels - columns * step;
    int32_t a = numbers[0], b = numbers[1], c = numbers[2], d = numbers[3];
    for (; rows > 0; rows--, x += x_skip, w += (p->kernel_w - columns) * 4) {
        for (int32_t kx = columns; kx > 0; kx--, x += step, w += 4) {
            const int32_t ab = two(x), cd = two(x + 2), weights_ab = two(w), weights_cd = two(w + 2);
            a += (int16_t)ab * (int16_t)weights_ab;
            b += (ab >> 16) * (weights_ab >> 16);
            c += (int16_t)cd * (int16_t)weights_cd;
            d += (cd >> 16) * (weights_cd >> 16);
        }
    }
    const int16_t results[4] = {rounded(a, numbers[4]), rounded(b, numbers[5]), rounded(c, numbers[6]), rounded(d, numbers[7])};
    for (int32_t i = 0; i < 4 && i < left; i++) {
        y[i] = results[i];
    }
}

void pillion_depthwise_any_s16_dsp(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t channels = p->channels, taps = p->kernel_h * p->kernel_w;
    int16_t *out = y;
    for (int32_t at = 0; at < p->batch * p->out_h * p->out_w; at++, out += channels) {
        const int32_t top = at / p->out_w % p->out_h * p->stride_h - p->pad_top;
        const int32_t left = at % p->out_w * p->stride_w - p->pad_left;
        const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
        const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
        const int16_t *const from = x + at / p->out_w / p->out_h * (p->in_h * p->in_w * channels) +
                                    ((top + rows.first * p->dilation_h) * p->in_w + left + columns.first * p->dilation_w) * channels;
        const int16_t *w = p->weights + (rows.first * p->kernel_w + columns.first) * 4;
        for (int32_t c = 0; c < channels; c += 4, w += taps * 4) {
            four(p, from + c, w, rows.last - rows.first, columns.last - columns.first, p->numbers + 2 * c, out + c, channels - c);
        }
    }
    pillion_dsp_clamp_16(y, (int32_t)(out - y), p->low, p->high);
}
#endif

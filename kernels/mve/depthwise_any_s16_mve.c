/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 16-bit inputs, eight channels at a time, straight from the image. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "halves.h"
#include "pillion/window.h"

typedef pillion_depthwise_any_s16_mve_params params;

/* Adds the taps inside the image, `rows` by `columns`, to the sums of even and odd channels and stores the results, of which there are
 * `left` or eight. Numbers: bias, factor of even channels, then of odd ones. */
static inline void eight(const params *p, const int16_t *x, const int8_t *w, int32_t rows, int32_t columns, const int32_t *numbers,
                         int16_t *y, int32_t left) {
    const int32_t step = p->dilation_w * p->channels, x_skip = p->dilation_h * p->in_w * p->channels - columns * step;
    int32x4_t even = vldrwq_s32(numbers), odd = vldrwq_s32(numbers + 8);
    for (; rows > 0; rows--, x += x_skip, w += (p->kernel_w - columns) * 8) {
        for (int32_t kx = columns; kx > 0; kx--, x += step, w += 8) {
            const int16x8_t inputs = vldrhq_s16(x), weights = vldrbq_s16(w);
            even = vaddq_s32(even, vmullbq_int_s16(inputs, weights));
            odd = vaddq_s32(odd, vmulltq_int_s16(inputs, weights));
        }
    }
    const int16x8_t below = vqmovnbq_s32(vdupq_n_s16(0), vqrdmulhq_s32(even, vldrwq_s32(numbers + 4)));
    vstrhq_p_s16(y, vqmovntq_s32(below, vqrdmulhq_s32(odd, vldrwq_s32(numbers + 12))), vctp16q((uint32_t)left));
}

void pillion_depthwise_any_s16_mve(const params *p, const int16_t *x, int16_t *y, void *scratch) {
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
        const int8_t *w = p->weights + (rows.first * p->kernel_w + columns.first) * 8;
        for (int32_t c = 0; c < channels; c += 8, w += taps * 8) {
            eight(p, from + c, w, rows.last - rows.first, columns.last - columns.first, p->numbers + 2 * c, out + c, channels - c);
        }
    }
    pillion_mve_clamp_16(y, (int32_t)(out - y), p->low, p->high);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 16 bits, a pixel and four channels at a time: of few outputs. */
#include "dot16.h"

#if PILLION_HAS_DSP
typedef pillion_depthwise_pixels_s16_dsp_params params;
typedef int16_t element, weight;
#define NUMBERS 2 /* bias, factor */

typedef struct {
    int32_t a, b, c, d;
} sums;

static inline int32_t two(const int16_t *at) {
    int32_t word;
    memcpy(&word, at, 4);
    return word;
}

static inline sums add_tap(sums s, const int16_t *x, const int16_t *w, uint32_t zps) {
    (void)zps;
    const int32_t ab = two(x), cd = two(x + 2), weights_ab = two(w), weights_cd = two(w + 2);
    s.a += (int16_t)ab * (int16_t)weights_ab;
    s.b += (ab >> 16) * (weights_ab >> 16);
    s.c += (int16_t)cd * (int16_t)weights_cd;
    s.d += (cd >> 16) * (weights_cd >> 16);
    return s;
}

static inline int16_t rounded(int32_t sum, int32_t factor) {
    __asm(ROUND_16(SIGNED, "%0", "%1") : "+&r"(sum) : "r"(factor));
    return (int16_t)sum;
}

static inline void results_of(sums s, const int32_t *factors, int16_t *y) {
    y[0] = rounded(s.a, factors[0]), y[1] = rounded(s.b, factors[1]), y[2] = rounded(s.c, factors[2]), y[3] = rounded(s.d, factors[3]);
}
#endif

#include "depthwise_pixels.h"

#if PILLION_HAS_DSP
void pillion_depthwise_pixels_s16_dsp(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    convolve_pixels(p, x, y);
    pillion_dsp_clamp_16(y, p->batch * p->out_h * p->out_w * p->channels, p->low, p->high);
}
#endif

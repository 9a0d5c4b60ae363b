/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 8 bits, a pixel and four channels at a time: of few outputs. */
#include "dot.h"
#include "smmlar.h"
#include "widen.h"

#include <string.h>

#if PILLION_HAS_DSP
typedef pillion_depthwise_pixels_s8_dsp_params params;
typedef int8_t element, weight;
#define NUMBERS 3 /* bias, twice the round, multiplier */

typedef struct {
    int32_t a, b, c, d;
} sums;

/* Channels a and c, then b and d. */
static inline void four_of(const int8_t *at, int32_t *pairs) {
    uint32_t word;
    memcpy(&word, at, 4);
    pillion_dsp_widen_four(pairs, word);
}

static inline int32_t less(int32_t pair, uint32_t zps) {
    __asm("ssub16 %0, %0, %1" : "+r"(pair) : "r"(zps));
    return pair;
}

static inline sums add_tap(sums s, const int8_t *x, const int8_t *w, uint32_t zps) {
    int32_t pairs[2], weights[2];
    four_of(x, pairs), four_of(w, weights);
    const int32_t ac = less(pairs[0], zps), bd = less(pairs[1], zps);
    s.a += (int16_t)ac * (int16_t)weights[0];
    s.b += (int16_t)bd * (int16_t)weights[1];
    s.c += (ac >> 16) * (weights[0] >> 16);
    s.d += (bd >> 16) * (weights[1] >> 16);
    return s;
}

static inline int8_t rounded(int32_t sum, const int32_t *numbers) {
    const int32_t round = numbers[0];
    return (int8_t)pillion_dsp_requantize(2 * sum, round >> 1, numbers[4], __builtin_ctz((uint32_t)round));
}

static inline void results_of(sums s, const int32_t *numbers, int8_t *y) {
    y[0] = rounded(s.a, numbers), y[1] = rounded(s.b, numbers + 1), y[2] = rounded(s.c, numbers + 2), y[3] = rounded(s.d, numbers + 3);
}
#endif

#include "depthwise_pixels.h"

#if PILLION_HAS_DSP
void pillion_depthwise_pixels_s8_dsp(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    convolve_pixels(p, x, y);
    pillion_dsp_clamp(y, p->batch * p->out_h * p->out_w * p->channels, p->low, p->high);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Largest value of windows, four channels at a time: SSUB8 sets a flag per byte where the difference is not negative, SEL
 * takes the bytes by these flags. */
#include "pool.h"

#include <string.h>

#if PILLION_HAS_DSP

static inline uint32_t largest_of(uint32_t a, uint32_t b) {
    uint32_t unused;
    __asm("ssub8 %1, %0, %2\n\tsel %0, %0, %2" : "+r"(a), "=&r"(unused) : "r"(b));
    return a;
}

static uint32_t four_channels(const pooled *w, const int8_t *x) {
    uint32_t most = 0x80808080u, pixel;
    for (int32_t row = w->rows; row > 0; row--, x += w->row_bytes) {
        const int8_t *at = x;
        for (int32_t column = w->columns; column > 0; column--, at += w->channels) {
            memcpy(&pixel, at, 4);
            most = largest_of(most, pixel);
        }
    }
    return most;
}

static int8_t one_channel(const pooled *w, const int8_t *x) {
    int32_t most = INT8_MIN;
    for (int32_t row = 0; row < w->rows; row++) {
        for (int32_t column = 0; column < w->columns; column++) {
            most = largest(most, x[row * w->row_bytes + column * w->channels]);
        }
    }
    return (int8_t)most;
}

static void largest_of_window(const pooled *w, int8_t *y) {
    int32_t c = 0;
    for (; c + 4 <= w->channels; c += 4) {
        const uint32_t four = four_channels(w, w->first + c);
        memcpy(y + c, &four, 4);
    }
    for (; c < w->channels; c++) {
        y[c] = one_channel(w, w->first + c);
    }
}

void pillion_max_pool2d_s8_dsp(const pillion_max_pool2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for_each_window(p, x, y, largest_of_window);
}
#endif

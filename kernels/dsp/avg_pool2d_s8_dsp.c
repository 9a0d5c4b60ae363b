/* SPDX-License-Identifier: Apache-2.0
 * Mean of windows, four channels at a time: SXTAB16 adds two bytes of a word to two 16-bit sums. 255 pixels fit these;
 * before a row could pass that, they are added to sums of 32 bits. */
#include "pool.h"

#include <string.h>

#if PILLION_HAS_DSP

#define MOST_PIXELS 255

/* Adds `count` pixels, c bytes apart, to the sums of channels 0 and 2 and of channels 1 and 3. */
static inline void add_pixels(const int8_t *x, int32_t count, int32_t c, uint32_t *even, uint32_t *odd) {
    uint32_t s02 = *even, s13 = *odd, a, b;
    const int32_t c3 = 3 * c;
    for (; count >= 4; count -= 4) {
        __asm volatile("ldr %3, [%0]\n\t"
                       "ldr %4, [%0, %5]\n\t"
                       "sxtab16 %1, %1, %3\n\t"
                       "sxtab16 %2, %2, %3, ror #8\n\t"
                       "ldr %3, [%0, %5, lsl #1]\n\t"
                       "sxtab16 %1, %1, %4\n\t"
                       "sxtab16 %2, %2, %4, ror #8\n\t"
                       "ldr %4, [%0, %6]\n\t"
                       "sxtab16 %1, %1, %3\n\t"
                       "sxtab16 %2, %2, %3, ror #8\n\t"
                       "sxtab16 %1, %1, %4\n\t"
                       "sxtab16 %2, %2, %4, ror #8\n\t"
                       "add %0, %0, %5, lsl #2"
                       : "+r"(x), "+r"(s02), "+r"(s13), "=&r"(a), "=&r"(b)
                       : "r"(c), "r"(c3)
                       : "memory");
    }
    for (; count > 0; count--, x += c) {
        memcpy(&a, x, 4);
        __asm("sxtab16 %0, %0, %1" : "+r"(s02) : "r"(a));
        __asm("sxtab16 %0, %0, %1, ror #8" : "+r"(s13) : "r"(a));
    }
    *even = s02, *odd = s13;
}

static inline int8_t mean(int32_t sum, int32_t count) {
    const int32_t half = count / 2;
    return (int8_t)((sum < 0 ? sum - half : sum + half) / count);
}

static inline void add_halves(int32_t *sums, uint32_t halves) {
    sums[0] += (int16_t)halves;
    sums[2] += (int32_t)halves >> 16;
}

static void four_channels(const pooled *w, int32_t count, const int8_t *x, int8_t *y) {
    int32_t sums[4] = {0, 0, 0, 0}, pixels = 0;
    uint32_t even = 0, odd = 0;
    for (int32_t row = w->rows; row > 0; row--, x += w->row_bytes) {
        pixels += w->columns;
        if (pixels > MOST_PIXELS) {
            add_halves(sums, even), add_halves(sums + 1, odd);
            even = odd = 0, pixels = w->columns;
        }
        add_pixels(x, w->columns, w->channels, &even, &odd);
    }
    add_halves(sums, even), add_halves(sums + 1, odd);
    for (int32_t i = 0; i < 4; i++) {
        y[i] = mean(sums[i], count);
    }
}

static void one_channel(const pooled *w, int32_t count, const int8_t *x, int8_t *y) {
    int32_t sum = 0;
    for (int32_t row = 0; row < w->rows; row++) {
        for (int32_t column = 0; column < w->columns; column++) {
            sum += x[row * w->row_bytes + column * w->channels];
        }
    }
    *y = mean(sum, count);
}

static void mean_of_window(const pooled *w, int8_t *y) {
    const int32_t count = w->rows * w->columns;
    int32_t c = 0;
    for (; c + 4 <= w->channels; c += 4) {
        four_channels(w, count, w->first + c, y + c);
    }
    for (; c < w->channels; c++) {
        one_channel(w, count, w->first + c, y + c);
    }
}

void pillion_avg_pool2d_s8_dsp(const pillion_avg_pool2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for_each_window(p, x, y, mean_of_window);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Mean of windows, four channels at a time, for kernels that say before how a sum becomes the `mean_of` so many numbers: SXTAB16 adds two
 * bytes of a word to two 16-bit sums. 255 pixels fit these; before a row could pass that, they are added to sums of 32 bits. */
#include "pool.h"
#include "sums.h"

static void four_channels(const pooled *w, int32_t count, const int8_t *x, int8_t *y) {
    int32_t sums[4] = {0, 0, 0, 0}, pixels = 0;
    uint32_t even = 0, odd = 0;
    for (int32_t row = w->rows; row > 0; row--, x += w->row_bytes) {
        pixels += w->columns;
        if (pixels > MOST_ROWS) {
            add_halves(sums, even), add_halves(sums + 1, odd);
            even = odd = 0, pixels = w->columns;
        }
        add_rows(x, w->columns, w->channels, &even, &odd);
    }
    add_halves(sums, even), add_halves(sums + 1, odd);
    for (int32_t i = 0; i < 4; i++) {
        y[i] = (int8_t)mean_of(sums[i], count);
    }
}

static void one_channel(const pooled *w, int32_t count, const int8_t *x, int8_t *y) {
    int32_t sum = 0;
    for (int32_t row = 0; row < w->rows; row++) {
        for (int32_t column = 0; column < w->columns; column++) {
            sum += x[row * w->row_bytes + column * w->channels];
        }
    }
    *y = (int8_t)mean_of(sum, count);
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

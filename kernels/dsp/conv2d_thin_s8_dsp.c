/* SPDX-License-Identifier: Apache-2.0
 * Convolution of any window over any number of channels, for first layers above all. A window is first put together
 * as bytes, behind the blocks in scratch, so that what is widened begins and ends with whole words; the bytes that fill
 * the last word meet weights of zero. */
#include "window.h"

#include <string.h>

#if PILLION_HAS_DSP

static inline uint32_t load(const int8_t *from) {
    uint32_t word;
    memcpy(&word, from, 4);
    return word;
}

static inline void store(int8_t *to, uint32_t word) {
    memcpy(to, &word, 4);
}

/* Rows of at least one byte. The last word of a row overlaps the one before. */
static void copy_rows(int8_t *to, int32_t to_pitch, const int8_t *from, int32_t from_pitch, int32_t rows, int32_t bytes) {
    const int32_t last = bytes - 4;
    for (; rows > 0; rows--, to += to_pitch, from += from_pitch) {
        int32_t i = 0;
        if (last >= 0) {
            for (; i < last; i += 4) {
                store(to + i, load(from + i));
            }
            store(to + last, load(from + last));
        } else {
            do {
                to[i] = from[i];
            } while (++i < bytes);
        }
    }
}

/* The positions i with 0 <= start + i * step < size, of count: [first, end). */
typedef struct {
    int32_t first, end;
} range;

static inline range inside(int32_t start, int32_t step, int32_t count, int32_t size) {
    range r = {0, count};
    while (r.first < count && start + r.first * step < 0) {
        r.first++;
    }
    while (r.end > r.first && start + (r.end - 1) * step >= size) {
        r.end--;
    }
    return r;
}

static void collect(const pillion_conv2d_s8_dsp_params *p, const int8_t *image, window w, int8_t *to) {
    const int32_t to_pitch = p->kernel_w * p->in_c;
    const int32_t from_pitch = p->dilation_h * p->in_w * p->in_c;
    image += (w.top * p->in_w + w.left) * p->in_c;
    if (p->dilation_w == 1 && window_inside(p, w)) {
        copy_rows(to, to_pitch, image, from_pitch, p->kernel_h, to_pitch);
        return;
    }
    memset(to, p->in_zp, (size_t)(p->kernel_h * to_pitch));
    const range rows = inside(w.top, p->dilation_h, p->kernel_h, p->in_h);
    const range columns = inside(w.left, p->dilation_w, p->kernel_w, p->in_w);
    const int32_t run = p->dilation_w == 1 ? columns.end - columns.first : 1; /* taps that lie in one piece */
    to += rows.first * to_pitch, image += rows.first * from_pitch;
    for (int32_t kx = columns.first; kx < columns.end; kx += run) {
        copy_rows(to + kx * p->in_c, to_pitch, image + kx * p->dilation_w * p->in_c, from_pitch, rows.end - rows.first,
                  run * p->in_c);
    }
}

static void widen_from_copy(const pillion_conv2d_s8_dsp_params *p, const int8_t *image, const int32_t pixels[3],
                            void *scratch) {
    const int32_t fours = (p->kernel_h * p->kernel_w * p->in_c + 3) / 4;
    int8_t *const copies = (int8_t *)scratch + 4 * p->steps * PILLION_DSP_BLOCK_WORDS;
    for (int32_t i = 0; i < 3; i++) {
        collect(p, image, window_of(p, pixels[i]), copies + 4 * fours * i);
    }
    pillion_dsp_widen_3(copies, copies + 4 * fours, copies + 8 * fours, scratch, fours);
}

void pillion_conv2d_thin_s8_dsp(const pillion_conv2d_thin_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    convolve(p, x, y, scratch, widen_from_copy);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution of any window over any number of channels, for first layers above all. The inputs of a window come in this
 * order: of every kernel row as many whole words as it has, then the bytes that are left at the ends of the rows, the
 * first of all rows, the second of all rows, the third. They are widened straight from the image; a window that is not
 * all inside the image is first copied as a whole, with zero points around it. */
#include "window.h"

#include <string.h>

#if PILLION_HAS_DSP

/* The positions i with 0 <= start + i * step < size, of count: [first, end). */
typedef struct {
    int32_t first, end;
} range;

static range inside(int32_t start, int32_t step, int32_t count, int32_t size) {
    range r = {0, count};
    while (r.first < count && start + r.first * step < 0) {
        r.first++;
    }
    while (r.end > r.first && start + (r.end - 1) * step >= size) {
        r.end--;
    }
    return r;
}

/* A few bytes: the empty asm keeps the compiler from calling memcpy for them. */
static inline void copy(int8_t *to, const int8_t *from, int32_t bytes) {
    for (; bytes >= 4; bytes -= 4, to += 4, from += 4) {
        uint32_t word;
        memcpy(&word, from, 4);
        memcpy(to, &word, 4);
    }
    for (; bytes > 0; bytes--) {
        __asm volatile("");
        *to++ = *from++;
    }
}

static void copy_window(const windows *s, window w, int8_t *to) {
    const pillion_conv2d_s8_dsp_params *const p = s->p;
    const int32_t row_bytes = p->kernel_w * p->in_c;
    const int32_t pitch = p->dilation_h * p->in_w * p->in_c;
    const range rows = inside(w.top, p->dilation_h, p->kernel_h, p->in_h);
    const range columns = inside(w.left, p->dilation_w, p->kernel_w, p->in_w);
    const int32_t run = p->dilation_w == 1 ? columns.end - columns.first : 1; /* taps that lie in one piece */
    const int8_t *from = tap(s, w.top + rows.first * p->dilation_h, w.left);
    if (columns.end - columns.first < p->kernel_w || rows.end - rows.first < p->kernel_h) {
        memset(to, p->in_zp, (size_t)(p->kernel_h * row_bytes));
    }
    to += rows.first * row_bytes;
    for (int32_t left = rows.end - rows.first; left > 0; left--, to += row_bytes, from += pitch) {
        for (int32_t kx = columns.first; kx < columns.end; kx += run) {
            copy(to + kx * p->in_c, from + kx * p->dilation_w * p->in_c, run * p->in_c);
        }
    }
}

/* Input k of the first pixel is a halfword of the blocks; so is the same input of the others, two and four further. */
static inline int16_t *after(int16_t *halfword, int32_t k) {
    static const int8_t steps[4] = {6, -5, 6, 5};
    return halfword + steps[k & 3];
}

static void widen_ends(const int8_t *x0, const int8_t *x1, const int8_t *x2, int32_t *blocks, int32_t bytes, int32_t rows,
                       int32_t pitch) {
    int16_t *to = (int16_t *)blocks;
    for (int32_t byte = 0, k = 0; byte < bytes; byte++) {
        int32_t at = byte;
        for (int32_t left = rows; left > 0; left--, at += pitch) {
            to[0] = x0[at], to[2] = x1[at], to[4] = x2[at];
            to = after(to, k++);
        }
    }
}

static void widen_thin(const windows *s) {
    const pillion_conv2d_s8_dsp_params *const p = s->p;
    const int32_t row_bytes = p->kernel_w * p->in_c;
    const int8_t *x[3];
    int32_t pitch = p->dilation_h * p->in_w * p->in_c;
    if (s->inside && p->dilation_w == 1) {
        for (int32_t i = 0; i < 3; i++) {
            x[i] = tap(s, s->w[i].top, s->w[i].left);
        }
    } else {
        pitch = row_bytes;
        int8_t *copy = s->dot.rest;
        for (int32_t i = 0; i < 3; i++, copy += p->kernel_h * row_bytes) {
            copy_window(s, s->w[i], copy);
            x[i] = copy;
        }
    }
    const int32_t whole = row_bytes & ~3;
    int32_t *blocks = s->dot.blocks;
    if (whole > 0) {
        pillion_dsp_widen_3(x[0], x[1], x[2], blocks, whole >> 2, p->kernel_h, pitch - whole);
        blocks += (whole >> 2) * p->kernel_h * PILLION_DSP_BLOCK_WORDS;
    }
    widen_ends(x[0] + whole, x[1] + whole, x[2] + whole, blocks, row_bytes & 3, p->kernel_h, pitch);
}

void pillion_dsp_thin(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                      pillion_dsp_beginner *begin) {
    windows s = windows_of(p, scratch, begin);
    convolve(&s, x, y, widen_thin);
}

void pillion_conv2d_thin_s8_dsp(const pillion_conv2d_thin_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_thin(p, x, y, scratch, pillion_dsp_dot_begin);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * The windows of five pixels of 16 bits, interleaved: two inputs of each pixel in turn. A kernel row of an odd number of inputs has one more, which
 * meets a weight of zero. Registers of their products: r0 blocks, r1-r5 inputs of the pixels, r6-r10 sums, r11 and lr weights, r12 the stream of these. */
#ifndef PILLION_DSP_FIVE_WINDOWS_H
#define PILLION_DSP_FIVE_WINDOWS_H

#include "dot16.h"

#include <string.h>

#if PILLION_HAS_DSP

typedef pillion_conv2d_s16_dsp_params params;

enum { PIXELS = 5 };
#define UNROLLED 8 /* steps to a round */

#define HALF_STEP_OF_FOUR(weights)          \
    "ldmia.n r0!, {r1, r2, r3, r4, r5}\n"  \
    "smlad r6, r1, " weights ", r6\n"      \
    "smlad r7, r2, " weights ", r7\n"      \
    "smlad r8, r3, " weights ", r8\n"      \
    "smlad r9, r4, " weights ", r9\n"
#define HALF_STEP(weights) HALF_STEP_OF_FOUR(weights) "smlad r10, r5, " weights ", r10\n"

/* Five windows: where each begins, and the bytes between two of its rows. */
typedef struct {
    const int16_t *x[PIXELS];
    int32_t skip[PIXELS]; /* 20 */
} windows;
PILLION_FIELDS_AT(windows, 0, x);
PILLION_FIELDS_AT(windows, 20, skip);

/* Words of five windows into blocks, side by side: `words` of each row. An odd word enters in the middle. Registers: r0 rounds left,
 * r1 blocks, r2 words, r3 rows, r4-r8 windows. */
#define FIVE                     \
    "ldr r9, [r4], #4\n"         \
    "ldr r10, [r5], #4\n"        \
    "ldr r11, [r6], #4\n"        \
    "ldr r12, [r7], #4\n"        \
    "ldr lr, [r8], #4\n"         \
    "stmia r1!, {r9-r12, lr}\n"
PILLION_NAKED static void interleave(PILLION_UNUSED const windows *w, PILLION_UNUSED int32_t *blocks, PILLION_UNUSED int32_t words,
                                     PILLION_UNUSED int32_t rows) {
    __asm volatile("push {r0, r4-r11, lr}\n"
                   "ldmia r0, {r4-r8}\n"
                   "adds r2, r2, #1\n"
                   "1:\n"
                   "lsrs r0, r2, #1\n"
                   "bcc 3f\n"
                   "2:\n" FIVE "3:\n" FIVE
                   "subs r0, r0, #1\n"
                   "bne 2b\n"
                   "ldr r0, [sp]\n"
                   "adds r0, r0, #20\n"
                   "ldmia r0, {r9-r12, lr}\n"
                   "add r4, r4, r9\n"
                   "add r5, r5, r10\n"
                   "add r6, r6, r11\n"
                   "add r7, r7, r12\n"
                   "add r8, r8, lr\n"
                   "subs r3, r3, #1\n"
                   "bne 1b\n"
                   "pop {r0, r4-r11, pc}\n");
}

/* Row and column of the first tap; outside the image they may be negative. */
typedef struct {
    const int16_t *image;
    int32_t top, left;
} window;

static inline window next_row(const params *p, window w) {
    w.left = -p->pad_left, w.top += p->stride_h;
    if (w.top == p->out_h * p->stride_h - p->pad_top) {
        w.top = -p->pad_top, w.image += p->in_h * p->in_w * p->in_c;
    }
    return w;
}

static inline const int16_t *tap(const params *p, window w) {
    return w.image + (w.top * p->in_w + w.left) * p->in_c;
}

static inline void copy(int16_t *to, const int16_t *from, int32_t count) {
    for (; count > 1; count -= 2, to += 2, from += 2) {
        memcpy(to, from, 4);
    }
    if (count > 0) {
        *to = *from;
    }
}

/* A window with zeros outside of the image. */
static __attribute__((noinline)) void copy_window(const params *p, window w, int32_t *to, int32_t words) {
    const int32_t in_c = p->in_c, step = p->dilation_w, row = p->dilation_h * p->in_w * in_c;
    const int32_t first = w.left < 0 ? (step - 1 - w.left) / step : 0;
    const int32_t end = p->in_w > w.left ? (p->in_w - w.left + step - 1) / step : 0, last = end < p->kernel_w ? end : p->kernel_w;
    const int32_t pieces = p->whole_rows ? first < last : last - first, count = p->whole_rows ? (last - first) * in_c : in_c;
    int16_t *at = (int16_t *)(void *)to + first * in_c;
    memset(to, 0, (size_t)(4 * words * p->kernel_h));
    w.left += first * step;
    const int16_t *x = tap(p, w);
    for (int32_t ky = p->kernel_h; ky > 0; ky--, at += 2 * words, x += row, w.top += p->dilation_h) {
        for (int32_t i = 0; i < pieces && (uint32_t)w.top < (uint32_t)p->in_h; i++) {
            copy(at + i * in_c, x + i * step * in_c, count);
        }
    }
}

/* The pixels at the end that are computed as fours: where the last five would have less than five pixels, as many fives are fours instead, if there
 * are that many. */
static inline int32_t pixels_in_fours(int32_t total) {
    const int32_t groups = (total + PIXELS - 1) / PIXELS, missing = groups * PIXELS - total;
    return missing <= groups ? missing * (PIXELS - 1) : 0;
}

/* Where the results of five pixels lie from the first one. Of fewer, the last one stands for the others. */
static inline void list_places(const params *p, int32_t pixels, int32_t *places) {
    for (int32_t i = 0; i < PIXELS; i++) {
        places[i] = 2 * p->out_c * (i < pixels ? i : pixels - 1);
    }
}

/* Lays out the windows of some pixels, five at most, from `w` on: those that lie in the image from there, others by copies. Returns the window
 * behind them. Of fewer than five, the last one stands for the others. */
static window lay_out(const params *p, window w, int32_t pixels, int32_t *blocks, int32_t *copies) {
    const int32_t words = (p->kernel_w * p->in_c + 1) / 2, row = p->dilation_h * p->in_w * p->in_c, skip = 2 * row - 4 * words;
    const int32_t last_top = p->in_h - 1 - (p->kernel_h - 1) * p->dilation_h, end = p->out_w * p->stride_w - p->pad_left;
    windows five;
    for (int32_t i = 0; i < PIXELS;) {
        const int32_t is_inside = p->whole_rows && w.top >= 0 && w.top <= last_top, last_left = is_inside ? p->in_w - p->kernel_w : -1;
        const int32_t step = p->stride_w;
        const int16_t *x = tap(p, w);
        do {
            five.x[i] = x, five.skip[i] = skip;
            if (w.left < 0 || w.left > last_left) {
                int32_t *const to = copies + i * words * p->kernel_h;
                copy_window(p, w, to, words);
                five.x[i] = (const int16_t *)(void *)to, five.skip[i] = 0;
            }
            x += step * p->in_c, w.left += step;
        } while (++i < pixels && w.left != end);
        w = w.left == end ? next_row(p, w) : w;
        for (; i >= pixels && i < PIXELS; i++) {
            five.x[i] = five.x[pixels - 1], five.skip[i] = five.skip[pixels - 1];
        }
    }
    interleave(&five, blocks, words, p->kernel_h);
    return w;
}
#endif

#endif

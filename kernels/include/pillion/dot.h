/* SPDX-License-Identifier: Apache-2.0
 * Sums of products for several output channels ("lanes") at once: inputs, read once, meet the weights of all of them.
 *
 * Weights lie in fours along the inputs and interleaved over the channels, w[inputs / 4][channels][4], missing inputs
 * having weight 0. Inputs are counted from -128, so that they are unsigned; in return the compiler takes
 * (in_zp + 128) * sum(w) off the bias. Sums wrap in 32 bits, which is harmless because the last one fits.
 *
 * If the channels are no multiple of the lanes, the last block starts earlier and computes some channels again. */
#ifndef PILLION_DOT_H
#define PILLION_DOT_H

#include "pillion/requantize.h"

#if defined(__SSE2__)
#include "pillion/dot_x86.h"
#endif

/* A Cortex-M has registers for four sums; other processors have vectors. */
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define PILLION_SCALAR_CORE 1
enum { PILLION_MAX_LANES = 4 };
#else
#define PILLION_SCALAR_CORE 0
enum { PILLION_MAX_LANES = 32 };
#endif

/* The output channels of a layer and their constants. */
typedef struct {
    const int8_t *weights;
    const int32_t *bias, *multiplier, *shift;
    const double *scale; /* instead of multiplier and shift, in linear_tflite_s8 */
    int32_t count;       /* channels */
    int32_t fours;       /* inputs of each, in fours */
    int32_t out_zp, low, high;
} pillion_channels;

PILLION_INLINE int32_t pillion_block_start(int32_t lane, int32_t count, int32_t lanes) {
    return lane + lanes <= count ? lane : count - lanes;
}

#if PILLION_SCALAR_CORE
/* The sums need names of their own to stay in registers at every level of optimization. */
PILLION_APART void pillion_dot_4(uint32_t *sums, const int32_t *bias, const int8_t *x, const int8_t *w, int32_t fours,
                                 int32_t stride) {
    uint32_t s0 = (uint32_t)bias[0], s1 = (uint32_t)bias[1], s2 = (uint32_t)bias[2], s3 = (uint32_t)bias[3];
    for (; fours > 0; fours--, x += 4, w += stride) {
        const uint32_t x0 = (uint32_t)(x[0] + 128), x1 = (uint32_t)(x[1] + 128);
        const uint32_t x2 = (uint32_t)(x[2] + 128), x3 = (uint32_t)(x[3] + 128);
        s0 += x0 * (uint32_t)w[0] + x1 * (uint32_t)w[1] + x2 * (uint32_t)w[2] + x3 * (uint32_t)w[3];
        s1 += x0 * (uint32_t)w[4] + x1 * (uint32_t)w[5] + x2 * (uint32_t)w[6] + x3 * (uint32_t)w[7];
        s2 += x0 * (uint32_t)w[8] + x1 * (uint32_t)w[9] + x2 * (uint32_t)w[10] + x3 * (uint32_t)w[11];
        s3 += x0 * (uint32_t)w[12] + x1 * (uint32_t)w[13] + x2 * (uint32_t)w[14] + x3 * (uint32_t)w[15];
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}
#endif

/* sums[j] = bias[j] + sum over k of (x[k] + 128) * w[k / 4][j][k % 4]; `stride` is 4 * channels. */
PILLION_INLINE void pillion_dot(uint32_t *sums, const int32_t *bias, const int8_t *x, const int8_t *w, int32_t fours,
                                int32_t stride, int32_t lanes) {
#if PILLION_SCALAR_CORE
    if (lanes == 4) {
        pillion_dot_4(sums, bias, x, w, fours, stride);
        return;
    }
#elif defined(__SSE2__)
    if (lanes >= 8) {
        pillion_dot_x86(sums, bias, x, w, fours, stride, lanes);
        return;
    }
#endif
    for (int32_t j = 0; j < lanes; j++) {
        sums[j] = (uint32_t)bias[j];
    }
    for (; fours > 0; fours--, x += 4, w += stride) {
        for (int32_t j = 0; j < lanes; j++) {
            for (int32_t k = 0; k < 4; k++) {
                sums[j] += (uint32_t)(x[k] + 128) * (uint32_t)w[4 * j + k];
            }
        }
    }
}

/* y[j] = clamp(requantize(sums[j]) + out_zp, low, high). The answers wait in a block of their own, because the compiler
 * must take it that a store to y may change the multipliers. */
PILLION_INLINE void pillion_finish_lanes(const pillion_channels *c, const uint32_t *sums, int32_t first, int8_t *y,
                                         int32_t lanes) {
    const int32_t *const multiplier = c->multiplier + first, *const shift = c->shift + first;
    const int32_t out_zp = c->out_zp, low = c->low, high = c->high;
    int8_t block[PILLION_MAX_LANES];
    for (int32_t j = 0; j < lanes; j++) {
        block[j] = pillion_saturate(pillion_requantize((int32_t)sums[j], multiplier[j], shift[j]), out_zp, low, high);
    }
    for (int32_t j = 0; j < lanes; j++) {
        y[j] = block[j];
    }
}

PILLION_APART void pillion_finish(const pillion_channels *c, const uint32_t *sums, int32_t first, int8_t *y,
                                  int32_t lanes) {
#if !PILLION_SCALAR_CORE
    if (lanes == PILLION_MAX_LANES) { /* a number that is known makes better vector code */
        pillion_finish_lanes(c, sums, first, y, PILLION_MAX_LANES);
        return;
    }
#endif
    pillion_finish_lanes(c, sums, first, y, lanes);
}

typedef void pillion_finisher(const pillion_channels *c, const uint32_t *sums, int32_t first, int8_t *y, int32_t lanes);

/* Some rows of inputs, `step` bytes apart, and their rows of answers. */
typedef struct {
    const int8_t *x;
    int8_t *y;
    int32_t count, x_step, y_step;
} pillion_rows;

/* All channels of some rows. Blocks of channels come outside, so that their weights are still near when the next row
 * wants them. */
PILLION_INLINE void pillion_answer_by(const pillion_channels *c, pillion_rows rows, pillion_finisher *finish,
                                      int32_t lanes) {
    for (int32_t lane = 0; lane < c->count; lane += lanes) {
        const int32_t first = pillion_block_start(lane, c->count, lanes);
        for (int32_t n = 0; n < rows.count; n++) {
            uint32_t sums[PILLION_MAX_LANES];
            pillion_dot(sums, c->bias + first, rows.x + n * rows.x_step, c->weights + 4 * first, c->fours, 4 * c->count,
                        lanes);
            finish(c, sums, first, rows.y + n * rows.y_step + first, lanes);
        }
    }
}

PILLION_APART void pillion_answer(const pillion_channels *c, pillion_rows rows, pillion_finisher *finish) {
#if PILLION_SCALAR_CORE
    pillion_answer_by(c, rows, finish, c->count >= 4 ? 4 : 1);
#else
    if (c->count >= 32) {
        pillion_answer_by(c, rows, finish, 32);
    } else if (c->count >= 16) {
        pillion_answer_by(c, rows, finish, 16);
    } else if (c->count >= 8) {
        pillion_answer_by(c, rows, finish, 8);
    } else {
        pillion_answer_by(c, rows, finish, 1);
    }
#endif
}

#endif

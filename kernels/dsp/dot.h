/* SPDX-License-Identifier: Apache-2.0
 * Dot products of three pixels with all output channels: what the convolutions of this folder share. */
#ifndef PILLION_DSP_DOT_H
#define PILLION_DSP_DOT_H

#include "pillion/dsp.h"

/* Four inputs of three pixels as six words: of each pixel inputs 0 and 2, then of each pixel inputs 1 and 3. */
#define PILLION_DSP_BLOCK_WORDS 6

/* What the loop over the pairs keeps on its stack; the offsets are in its text. */
typedef struct {
    int8_t *y[3];          /*  0 */
    const int32_t *x;      /* 12 */
    const uint32_t *jumps; /* 16: where it goes on after each round, see dot_dsp.c */
    int32_t sums[3];       /* 20: of dot_4_dsp.c */
} pillion_dsp_pair_loop;

/* A layer, as dot_dsp.c reads it. The output channels are computed in pairs A, B; the stream holds for each pair, with
 * c = bias - in_zp * sum(w) and round = (2 * out_zp + 1) << (right shift - 1), or of no such shift as README.md says:
 *   c_A + 256 * c_B, c_A, {256 * B + A of inputs 0 and 2, the same of inputs 1 and 3} x steps,
 *   round_B, multiplier_B, round_A, multiplier_A, right shift of B + 256 * right shift of A, negative if it ends a run
 * A weight of -128 may not fit into 256 * B + A; it is then packed as -127 and -1, and its input is wanted twice. */
typedef struct pillion_dsp_dot {
    const int32_t *stream;
    const uint16_t *runs;    /* first channels of runs: pairs of neighbouring channels, one pair after the other */
    const uint16_t *repeats; /* {from, to}: halfwords of the blocks, for the inputs wanted twice */
    int32_t run_count, repeat_count;
    int32_t lone;      /* not 0: the last run is the last channel, with zeros for B and no place for it in y */
    int32_t steps;     /* inputs of a sum, in fours */
    int32_t out_c;
    int32_t rectified; /* low >= out_zp: the sign of a sum below zero does not matter */
    int32_t part_rounds; /* not 0: sums are set aside after so many rounds of eight steps */
    /* From here on set by the function that begins: */
    void (*three)(struct pillion_dsp_dot *dot, int8_t *y); /* all output channels of three pixels, whose widened inputs are in the blocks */
    int32_t second, third; /* from the first pixel to the others in y; of one or two the last stands there again */
    int32_t *blocks;       /* the start of scratch */
    void *rest;            /* of scratch, behind the jumps */
    pillion_dsp_pair_loop loop;
} pillion_dsp_dot;

#define PILLION_DSP_DOT(p)                                                                                       \
    {.stream = (p)->stream, .runs = (p)->runs, .repeats = (p)->repeats, .run_count = (p)->run_count,             \
     .repeat_count = (p)->repeat_count, .lone = (p)->lone, .steps = (p)->steps, .out_c = (p)->out_c,             \
     .rectified = (p)->rectified, .part_rounds = (p)->part_rounds}

typedef void pillion_dsp_beginner(pillion_dsp_dot *dot, int32_t pixels, void *scratch);
pillion_dsp_beginner pillion_dsp_dot_begin;

/* All output channels of one pixel, the first of the blocks; neither part_rounds nor repeat_count may be set. */
typedef void pillion_dsp_one(const pillion_dsp_dot *dot, int8_t *y);
pillion_dsp_one pillion_dsp_dot_1;

/* The same of weights of four bits, dot_4_dsp.c. Weights A and B are a byte 16 * B + A + 8, and the stream holds for each pair
 *   c_A + 16 * c_B, c_A, {bytes of inputs 0 to 3} x steps, and the same as above. part_rounds and repeat_count are 0. */
pillion_dsp_beginner pillion_dsp_dot_4_begin;
pillion_dsp_one pillion_dsp_dot_4_one;

/* The convolutions, whatever the weights. */
void pillion_dsp_1x1(const pillion_conv2d_1x1_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                     pillion_dsp_beginner *begin, pillion_dsp_one *one);
void pillion_dsp_ring(const pillion_conv2d_ring_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                      pillion_dsp_beginner *begin);
typedef void pillion_dsp_window_kernel(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                                       pillion_dsp_beginner *begin);
pillion_dsp_window_kernel pillion_dsp_any_window, pillion_dsp_thin;

/* Widens three pixels into blocks: `rows` pieces of 4 * fours bytes (not none), the next of which begin `skip` bytes
 * after the end of those before. */
void pillion_dsp_widen_3(const int8_t *x0, const int8_t *x1, const int8_t *x2, int32_t *blocks, int32_t fours,
                         int32_t rows, int32_t skip);

/* y = clamp(y, low, high) */
void pillion_dsp_clamp(int8_t *y, int32_t count, int32_t low, int32_t high);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The sums of the gates of recurrent layers, four rows of weights at a time. */
#ifndef PILLION_DSP_GATES_H
#define PILLION_DSP_GATES_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"

/* What rows of weights add to the sums of a gate, in 16 bits: sums[i] = saturate(sums[i] + requantize(weights[i] * x)). */
typedef struct {
    const int32_t *stream;  /* of four rows A to D: words of A and B, of C and D, for each four inputs (README.md), then biases */
    const int32_t *scaling; /* multiplier, shift to the right, shift to the left */
    int32_t groups, eights; /* of four rows; of inputs */
} pillion_dsp_rows;

/* Adds the rows to the sums, and gives what lies behind their constants. */
const int32_t *pillion_dsp_add_rows(const pillion_dsp_rows *rows, const int32_t *x, int16_t *sums);

/* A vector in words of two numbers, filled up with zeros to whole eights. */
void pillion_dsp_widen_row(const int8_t *x, int32_t count, int32_t *to);

typedef struct {
    PILLION_DSP_GATES_FIELDS
} pillion_dsp_gates;

/* The sums of all gates of one input, and behind them the scratch for wide inputs. Sums of a gate are as many as whole groups have. */
void pillion_dsp_sums_of_gates(const pillion_dsp_gates *p, int32_t gates, const int8_t *x, const int8_t *h, int16_t *sums);

#endif

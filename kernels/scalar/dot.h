/* SPDX-License-Identifier: Apache-2.0
 * Sums of products of three pixels with two output channels at once. The inputs of the pixels are widened before, and lie
 * interleaved: block[input][pixel]. */
#ifndef PILLION_SCALAR_DOT_H
#define PILLION_SCALAR_DOT_H

#include "rescale.h"

enum { PILLION_SCALAR_PIXELS = 3, PILLION_SCALAR_PAIR = 2 };

/* The output channels of a layer. */
typedef struct {
    const int8_t *weights;
    const int32_t *constants;
    int32_t inputs, count;
} pillion_scalar_channels;

/* All channels of three pixels; `y` has the addresses of their results. */
void pillion_scalar_dot(const pillion_scalar_channels *c, const int32_t *block, int8_t *const *y);

/* All channels of one pixel, with its inputs in memory order. */
void pillion_scalar_dot_1(const pillion_scalar_channels *c, const int8_t *x, int8_t *y);

#endif

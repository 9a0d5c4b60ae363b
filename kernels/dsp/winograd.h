/* SPDX-License-Identifier: Apache-2.0
 * Winograd's convolution: the products of what weights and inputs are made into, and their sums. See README.md. */
#ifndef PILLION_DSP_WINOGRAD_H
#define PILLION_DSP_WINOGRAD_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"

#define PILLION_DSP_WINOGRAD_PLACES 16
#define PILLION_DSP_WINOGRAD_TILES 3 /* at a time */

/* Two output channels of three tiles. Inputs are words of two [16 places][steps][3 tiles], weights [16][steps][2 channels].
 * Constants: four times c of both channels, c = bias - in_zp * sum(w); then of each channel
 * round = (2 * out_zp + 1) << (right shift - 1), multiplier and right shift. */
typedef struct {
    const int32_t *x; /* the assembly takes all fields at once */
    const int32_t *w;
    const uint32_t *jumps;
    const int32_t *constants;
    int8_t **y; /* [upper left, lower left, upper right, lower right][3 tiles]; they move on by two channels */
} pillion_dsp_winograd_loop;

#define PILLION_DSP_WINOGRAD_CONSTANTS 8

/* Writes the list of jumps for so many steps, and gives its end: at most 16 * (steps / 8 + 1) + 24 jumps. */
uint32_t *pillion_dsp_winograd_jumps(uint32_t *jumps, int32_t steps);

void pillion_dsp_winograd_pair(const pillion_dsp_winograd_loop *loop);

/* A tile of 4x4 pixels, `row` bytes from one row of it to the next and `column` bytes from pixel to pixel, becomes 16 places of
 * inputs, `place` bytes apart, in words of two channels, 12 bytes apart. Of each pixel so many times four bytes are
 * taken, and one more is read. */
void pillion_dsp_winograd_inputs(const int8_t *x, int32_t row, int32_t column, int32_t *to, int32_t place, int32_t fours);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Weights of four bits become bytes four channels at a time, for all pixels of the planes. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "unpack.h"

enum { CHANNELS = 4, NUMBERS = 3 * CHANNELS }; /* words before the weights of four channels */

static void output_rows(const pillion_conv2d_3x3_fours_s4_mve_params *p, int8_t *planes, int8_t *y, int32_t rows) {
    const int32_t *constants = p->constants, vectors = 9 * p->planes * CHANNELS / 2;
    int8_t *const weights = pillion_mve_behind_planes(p, planes);
    for (int32_t channel = 0; channel < p->out_c; channel += CHANNELS, constants += NUMBERS + 4 * vectors) {
        pillion_mve_unpack(weights, (const int8_t *)(constants + NUMBERS), vectors);
        pillion_mve_3x3_fours(p, planes, y + channel, rows, constants, weights);
    }
}

void pillion_conv2d_3x3_fours_s4_mve(const pillion_conv2d_3x3_fours_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_planes(p, x, y, scratch, output_rows);
}

#endif

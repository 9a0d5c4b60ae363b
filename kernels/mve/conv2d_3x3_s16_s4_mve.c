/* SPDX-License-Identifier: Apache-2.0
 * Weights of four bits become bytes two channels at a time, for all pixels of the planes. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "unpack.h"

enum { NUMBERS = 4, BYTES = 4 }; /* words before the weights of two channels, bytes of their results */

static void output_rows(const pillion_conv2d_3x3_s16_s4_mve_params *p, int8_t *planes, int8_t *y, int32_t rows) {
    const int32_t *constants = p->constants, vectors = (9 * p->planes + 1) / 2;
    int8_t *const weights = pillion_mve_behind_planes(p, planes);
    for (int32_t channel = 0; channel < p->out_c; channel += BYTES, constants += NUMBERS + 4 * vectors) {
        pillion_mve_unpack(weights, (const int8_t *)(constants + NUMBERS), vectors);
        pillion_mve_3x3_twos(p, planes, y + channel, rows, constants, weights);
    }
}

void pillion_conv2d_3x3_s16_s4_mve(const pillion_conv2d_3x3_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_mve_planes_16(p, x, y, scratch, output_rows);
}

#endif

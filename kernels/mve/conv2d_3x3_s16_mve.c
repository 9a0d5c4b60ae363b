/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs by a kernel of 3x3, over a multiple of 8 channels; see twos.h. */
#define WEIGHTS(q) "vldrb.s16 " q ", [r5], #8\n"
#define PRODUCT "vmladava.s16"
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "twos.h"

void pillion_mve_3x3_twos(const params *p, const int8_t *planes, int8_t *y, int32_t rows, const int32_t *numbers, const void *weights) {
    twos(p, planes, y, rows, numbers, weights);
}

static void output_rows(const params *p, int8_t *planes, int8_t *y, int32_t rows) {
    all_twos(p, planes, y, rows, 36);
}

void pillion_conv2d_3x3_s16_mve(const pillion_conv2d_3x3_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_mve_planes_16(p, x, y, scratch, output_rows);
}

#endif

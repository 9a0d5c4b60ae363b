/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 8-bit inputs by a kernel of 3x3, over a multiple of 16 channels, to 16-bit results; see twos.h. */
#define WEIGHTS(q) "vldrw.u32 " q ", [r5], #16\n"
#define PRODUCT "vmladava.s8"
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "twos.h"

static void output_rows(const params *p, int8_t *planes, int8_t *y, int32_t rows) {
    all_twos(p, planes, y, rows, 72);
}

void pillion_conv2d_3x3_fours_s8_s16_mve(const pillion_conv2d_3x3_fours_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch) {
    pillion_mve_planes_16(p, x, y, scratch, output_rows);
}

#endif

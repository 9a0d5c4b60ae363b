/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of 3x3 to 16-bit results; see pairs_3x3.h. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "round16.h"
#define HEAD_WORDS 8
#define GROUP_WORDS(planes) (16 + 32 * 9 * (planes))
#define EIGHT 16
#define GROUP_Y_BYTES "16"
#define NUMBERS LOAD_FACTORS
#define RESULTS ROUND_AND_STORE
#include "pairs_3x3.h"

void pillion_conv2d_3x3_s8_s16_mve(const pillion_conv2d_3x3_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch) {
    pillion_mve_planes_16(p, x, y, scratch, output_rows);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of 3x3; see pairs_3x3.h. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#define HEAD_WORDS 10
#define GROUP_WORDS(planes) (18 + 32 * 9 * (planes))
#define EIGHT 8
#define NUMBERS LOAD_GROUP
#define RESULTS(y) REQUANTIZE STORE(y)
#include "pairs_3x3.h"

void pillion_mve_3x3_eights(const params *p, const int8_t *planes, int8_t *y, int32_t rows, int32_t groups, const int32_t *constants) {
    eights(p, planes, y, rows, groups, constants);
}

void pillion_conv2d_3x3_s8_mve(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_planes(p, x, y, scratch, output_rows);
}

#endif

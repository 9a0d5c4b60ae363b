/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"

typedef pillion_conv2d_s16_params params;
typedef int16_t operand;
#define PRODUCT(p, x, w) ((int64_t)(x) * (w))
#include "conv16.h"

void pillion_conv2d_s16(const pillion_conv2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    convolve(p, x, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
#define MEAN_TYPE int8_t
#define MEAN_SATURATE(mean, zp) pillion_saturate(mean, zp, -128, 127)
#include "mean.h"

void pillion_mean_s8(const pillion_mean_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    means_of_rows(p, x, y);
}

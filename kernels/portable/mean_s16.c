/* SPDX-License-Identifier: Apache-2.0 */
#define MEAN_TYPE int16_t
#define MEAN_SATURATE(mean, zp) (int16_t)(pillion_clamp(mean, -32768 - (zp), 32767 - (zp)) + (zp))
#include "mean.h"

void pillion_mean_s16(const pillion_mean_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    means_of_rows(p, x, y);
}

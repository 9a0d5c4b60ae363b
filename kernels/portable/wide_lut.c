/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_wide_lut(const pillion_wide_lut_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int16_t *table = p->table;
    (void)scratch;
    for (int32_t i = 0, count = p->count; i < count; i++) {
        const int32_t at = x[i] + 32768;
        const int16_t *first = table + (at >> 8);
        y[i] = (int16_t)(first[0] + (((first[1] - first[0]) * (at & 255) + 128) >> 8));
    }
}

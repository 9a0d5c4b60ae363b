/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_lut_s8(const pillion_lut_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int8_t *const table = p->table;
    for (int32_t i = 0, count = p->count; i < count; i++) {
        y[i] = table[x[i] + 128];
    }
}

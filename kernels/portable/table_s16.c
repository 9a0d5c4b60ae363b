/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"

void pillion_table_s16(const pillion_table_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const int16_t *const at = p->table + 256 + (x[i] >> 7);
        const int16_t slope = (int16_t)(at[1] - at[0]); /* wraps around, as does the result */
        y[i] = (int16_t)(at[0] + ((slope * (x[i] & 127) + 64) >> 7));
    }
}

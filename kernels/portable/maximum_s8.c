/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast.h"
#include "pillion/kernels.h"

PILLION_APART void apply(const void *params, int8_t *a, const int8_t *b, int32_t count) {
    (void)params;
    for (int32_t i = 0; i < count; i++) {
        a[i] = b[i] > a[i] ? b[i] : a[i];
    }
}

void pillion_maximum_s8(const pillion_maximum_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_broadcast_rows(PILLION_BROADCAST(p), p, apply, a, b, y);
}

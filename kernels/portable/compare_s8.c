/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast.h"
#include "pillion/kernels.h"

PILLION_APART void apply(const void *params, int8_t *a, const int8_t *b, int32_t count) {
    const pillion_compare_s8_params p = *(const pillion_compare_s8_params *)params;
    for (int32_t i = 0; i < count; i++) {
        const int32_t first = p.a_key[a[i] + 128], second = p.b_key[b[i] + 128];
        const int32_t outcome = first < second ? 1 : first == second ? 2 : 4;
        a[i] = (p.relation & outcome) != 0;
    }
}

void pillion_compare_s8(const pillion_compare_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_broadcast_rows(PILLION_BROADCAST(p), p, apply, a, b, y);
}

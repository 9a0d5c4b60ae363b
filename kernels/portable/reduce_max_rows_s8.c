/* SPDX-License-Identifier: Apache-2.0
 * The largest elements of rows that arrive a few at a time; the scratch memory holds the largest so far. */
#include <string.h>

#include "pillion/kernels.h"

void pillion_reduce_max_rows_s8(const pillion_reduce_max_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int8_t *const found = scratch;
    const int32_t inner = p->inner;
    if (p->is_first) {
        memcpy(found, x, (size_t)inner);
    }
    for (int32_t n = 0; n < p->reduced; n++, x += inner) {
        for (int32_t i = 0; i < inner; i++) {
            found[i] = x[i] > found[i] ? x[i] : found[i];
        }
    }
    if (p->is_last) {
        memcpy(y, found, (size_t)inner);
    }
}

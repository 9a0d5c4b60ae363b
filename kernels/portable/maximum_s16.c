/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast16.h"

PILLION_INLINE int32_t apply(const void *params, int32_t a, int32_t b) {
    (void)params;
    return b > a ? b : a;
}

void pillion_maximum_s16(const pillion_maximum_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                         void *scratch) {
    (void)scratch;
    pillion_broadcast_16(PILLION_BROADCAST(p), p, apply, a, b, y);
}

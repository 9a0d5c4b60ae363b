/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast16.h"

PILLION_INLINE int32_t apply(const void *params, int32_t a, int32_t b) {
    const pillion_mul_s16_params *const p = params;
    return pillion_clamp(pillion_requantize(a * b, p->multiplier, p->shift), p->low, p->high);
}

void pillion_mul_s16(const pillion_mul_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_broadcast_16(PILLION_BROADCAST(p), p, apply, a, b, y);
}

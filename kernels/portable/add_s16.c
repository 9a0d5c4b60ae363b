/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast16.h"

/* Both operands get 15 bits of headroom and a common scale, then the scale of the answer. */
PILLION_INLINE int32_t apply(const void *params, int32_t a, int32_t b) {
    const pillion_add_s16_params *const p = params;
    const int32_t first = pillion_requantize(a * (1 << 15), p->a_multiplier, p->a_shift);
    const int32_t second = pillion_requantize(b * (1 << 15), p->b_multiplier, p->b_shift);
    const int32_t sum = pillion_requantize(first + p->b_sign * second, p->out_multiplier, p->out_shift);
    return pillion_clamp(sum, p->low, p->high);
}

void pillion_add_s16(const pillion_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_broadcast_16(PILLION_BROADCAST(p), p, apply, a, b, y);
}

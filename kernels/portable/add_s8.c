/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast.h"
#include "pillion/kernels.h"

/* Both operands get 20 bits of headroom and a common scale, then the scale of the answer. */
PILLION_APART void apply(const void *params, int8_t *a, const int8_t *b, int32_t count) {
    const pillion_add_s8_params p = *(const pillion_add_s8_params *)params;
    for (int32_t i = 0; i < count; i++) {
        const int32_t first = pillion_requantize((a[i] - p.a_zp) * (1 << 20), p.a_multiplier, p.a_shift);
        const int32_t second = pillion_requantize((b[i] - p.b_zp) * (1 << 20), p.b_multiplier, p.b_shift);
        const int32_t sum = pillion_requantize(first + p.b_sign * second, p.out_multiplier, p.out_shift);
        a[i] = pillion_saturate(sum, p.out_zp, p.low, p.high);
    }
}

void pillion_add_s8(const pillion_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_broadcast_rows(PILLION_BROADCAST(p), p, apply, a, b, y);
}

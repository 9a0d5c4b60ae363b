/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/broadcast.h"
#include "pillion/kernels.h"

PILLION_APART void apply(const void *params, int8_t *a, const int8_t *b, int32_t count) {
    const pillion_mul_s8_params p = *(const pillion_mul_s8_params *)params;
    for (int32_t i = 0; i < count; i++) {
        const int32_t product = (a[i] - p.a_zp) * (b[i] - p.b_zp);
        a[i] = pillion_saturate(pillion_requantize(product, p.multiplier, p.shift), p.out_zp, p.low, p.high);
    }
}

void pillion_mul_s8(const pillion_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_broadcast_rows(PILLION_BROADCAST(p), p, apply, a, b, y);
}

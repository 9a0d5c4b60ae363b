/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/host.h"

#include "vector.h"

void pillion_mul_s8_host(const pillion_mul_s8_host_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_vector zp1 = pillion_number(-p->zp1), zp2 = pillion_number(-p->zp2);
    const pillion_vector multiplier = pillion_number(p->multiplier), right = pillion_number(p->right);
    const pillion_vector half = pillion_number(1 << (p->right - 1));
    for (int32_t row = 0; row < p->rows; row++, x1 += p->count, y += p->count) {
        for (int32_t at = 0; at < p->count; at += PILLION_VECTOR) {
            const int32_t count = pillion_left(at, p->count);
            pillion_vector first[PILLION_REGISTERS], second[PILLION_REGISTERS];
            pillion_widen(pillion_load_some(x1 + at, count), first);
            pillion_widen(pillion_load_some(x2 + at, count), second);
            for (int32_t r = 0; r < PILLION_REGISTERS; r++) {
                const pillion_vector product = pillion_multiply(pillion_add(first[r], zp1), pillion_add(second[r], zp2));
                first[r] = pillion_scale(product, multiplier, multiplier, half, right);
            }
            pillion_store_some(y + at, pillion_narrow(first, p->out_zp, p->low, p->high), count);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/host.h"

#include "vector.h"

void pillion_sum_s8_host(const pillion_sum_s8_host_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_vector a = pillion_number(p->a), b = pillion_number(p->b), c = pillion_number(p->c);
    for (int32_t row = 0; row < p->rows; row++, x1 += p->count, y += p->count) {
        for (int32_t at = 0; at < p->count; at += PILLION_VECTOR) {
            const int32_t count = pillion_left(at, p->count);
            pillion_vector first[PILLION_REGISTERS], second[PILLION_REGISTERS];
            pillion_widen(pillion_load_some(x1 + at, count), first);
            pillion_widen(pillion_load_some(x2 + at, count), second);
            for (int32_t r = 0; r < PILLION_REGISTERS; r++) {
                const pillion_vector products = pillion_add(pillion_multiply(first[r], a), pillion_multiply(second[r], b));
                first[r] = pillion_shift_right(pillion_add(products, c), p->shift);
            }
            pillion_store_some(y + at, pillion_narrow(first, 0, p->low, p->high), count);
        }
    }
}

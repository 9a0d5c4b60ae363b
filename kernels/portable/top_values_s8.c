/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

typedef int8_t element;
#include "pillion/top.h"

void pillion_top_values_s8(const pillion_top_values_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->size) {
        int32_t place = -1;
        for (int32_t i = 0; i < p->k; i++) {
            place = pillion_next_of_top(x, p->size, p->largest, place);
            *y++ = x[place];
        }
    }
}

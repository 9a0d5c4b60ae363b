/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_arg_max_s8(const pillion_arg_max_s8_params *p, const int8_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->outer; row++, x += p->size * p->inner) {
        for (int32_t column = 0; column < p->inner; column++) {
            const int8_t *at = x + column;
            int32_t best = *at, place = 0;
            for (int32_t i = 1; i < p->size; i++) {
                at += p->inner;
                if (*at > best) {
                    best = *at, place = i;
                }
            }
            *y++ = place;
        }
    }
}

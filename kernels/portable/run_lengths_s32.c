/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_run_lengths_s32(const pillion_run_lengths_s32_params *p, const int32_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->size, y += 2 * p->most) {
        int32_t begin = 0;
        for (int32_t run = 0; run < p->most; run++) {
            int32_t end = begin;
            const int32_t number = begin < p->size ? x[begin] : 0;
            while (end < p->size && x[end] == number) {
                end++;
            }
            y[2 * run] = number;
            y[2 * run + 1] = end - begin;
            begin = end;
        }
    }
}

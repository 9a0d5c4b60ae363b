/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/median.h"

static int8_t median(int8_t a, int8_t b, int8_t c)
{
    const int8_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

void pillion_median3_s8(const pillion_median3_s8_params *p, const int8_t *x, int8_t *y, void *scratch)
{
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        const int8_t *in = x + row * p->length;
        int8_t *out = y + row * p->length;
        for (int32_t i = 0; i < p->length; i++) {
            out[i] = median(in[i > 0 ? i - 1 : 0], in[i], in[i + 1 < p->length ? i + 1 : i]);
        }
    }
}

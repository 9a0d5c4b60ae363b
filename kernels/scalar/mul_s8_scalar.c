/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/scalar.h"
#include "rescale.h"

void pillion_mul_s8_scalar(const pillion_mul_s8_scalar_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_scalar_scale scale = {p->round, p->multiplier, p->right};
    const int32_t zp1 = p->zp1, zp2 = p->zp2, count = p->count;
    for (int32_t row = p->rows; row > 0; row--, x1 += count, y += count) {
        for (int32_t i = 0; i < count; i++) {
            y[i] = pillion_scalar_rescale((x1[i] - zp1) * (x2[i] - zp2), &scale);
        }
    }
    const int32_t bytes = p->rows * count;
    pillion_scalar_clamp(y - bytes, bytes, p->low, p->high);
}

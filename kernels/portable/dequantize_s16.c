/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_dequantize_s16(const pillion_dequantize_s16_params *p, const int16_t *x, float *y, void *scratch) {
    const int32_t in_zp = p->in_zp;
    const float scale = p->scale;
    (void)scratch;
    for (int32_t i = 0, count = p->count; i < count; i++) {
        y[i] = (float)(x[i] - in_zp) * scale;
    }
}

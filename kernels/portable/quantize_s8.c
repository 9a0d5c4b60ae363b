/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/blocks.h"
#include "pillion/kernels.h"
#include "pillion/rounding.h"

void pillion_quantize_s8(const pillion_quantize_s8_params *p, const float *x, int8_t *y, void *scratch) {
    (void)scratch;
    const float reciprocal = p->reciprocal;
    const int32_t out_zp = p->out_zp, whole = p->count;
    for (int32_t at = 0; at < whole; at += PILLION_BLOCK) {
        const int32_t count = pillion_block_count(at, whole);
        int8_t block[PILLION_BLOCK];
        for (int32_t i = 0; i < count; i++) {
            const int32_t level = pillion_nearest(x[at + i] * reciprocal, 1);
            block[i] = pillion_saturate(level, out_zp, -128, 127);
        }
        pillion_store(y + at, block, count);
    }
}

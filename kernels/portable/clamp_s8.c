/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/blocks.h"
#include "pillion/kernels.h"

void pillion_clamp_s8(const pillion_clamp_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t low = p->low, high = p->high, whole = p->count;
    for (int32_t at = 0; at < whole; at += PILLION_BLOCK) {
        const int32_t count = pillion_block_count(at, whole);
        int8_t block[PILLION_BLOCK];
        for (int32_t i = 0; i < count; i++) {
            block[i] = (int8_t)pillion_clamp(x[at + i], low, high);
        }
        pillion_store(y + at, block, count);
    }
}

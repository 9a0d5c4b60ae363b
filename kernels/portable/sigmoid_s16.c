/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"

void pillion_sigmoid_s16(const pillion_sigmoid_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t bits = p->is_tanh ? 8 : 9, zero = p->is_tanh ? 1 << 23 : 0, one = p->is_tanh ? 1 << 23 : 1 << 25;
    const int32_t places = p->is_tanh ? 8 : 10, last = p->is_tanh ? 65535 << 8 : 32767 << 10;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t steps = (x[i] * p->factor + (1 << p->right >> 1)) >> p->right;
        const int32_t size = steps < 0 ? -steps : steps, at = size >> bits, part = size & ((1 << bits) - 1);
        int32_t level = last;
        if (at < 255) {
            const int32_t first = p->sigmoids[at];
            level = (first << bits) + part * (p->sigmoids[at + 1] - first);
        }
        const int32_t half = 1 << (places - 1);
        y[i] = (int16_t)((steps >= 0 ? level - zero + half : one - level + half - 1) >> places);
    }
}

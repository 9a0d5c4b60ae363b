/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/host.h"

#include "vector.h"

void pillion_quantize_s8_host(const pillion_quantize_s8_host_params *p, const float *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t at = 0; at < p->count; at += PILLION_VECTOR) {
        const int32_t count = pillion_left(at, p->count);
        pillion_vector levels[PILLION_REGISTERS];
        for (int32_t r = 0; r < PILLION_REGISTERS; r++) {
            const int32_t first = r * PILLION_LANES, left = pillion_clamp(count - first, 0, PILLION_LANES);
            levels[r] = pillion_nearest_number(pillion_load_some(x + at + (left ? first : 0), 4 * left), p->reciprocal);
        }
        pillion_store_some(y + at, pillion_narrow(levels, p->out_zp, -128, 127), count);
    }
}

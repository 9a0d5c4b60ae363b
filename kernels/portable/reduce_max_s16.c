/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int16_t element;
#include "pillion/extreme.h"

void pillion_reduce_max_s16(const pillion_reduce_max_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    int32_t at[PILLION_MAX_AXES] = {0};
    for (int32_t i = 0; i < p->results; i++) {
        y[i] = pillion_extreme(PILLION_REDUCED(p), x, 1);
        x += pillion_walk(p->kept_axes, p->kept_extent, p->kept_step, at);
    }
}

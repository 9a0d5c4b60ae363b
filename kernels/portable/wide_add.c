/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/walk.h"

static inline int64_t element(const void *x, int32_t bytes, int32_t at) {
    return bytes == 2 ? ((const int16_t *)x)[at] : ((const int8_t *)x)[at];
}

void pillion_wide_add(const pillion_wide_add_params *p, const void *a, const void *b, void *y, void *scratch) {
    const int32_t most = p->y_bytes == 2 ? INT16_MAX : INT8_MAX;
    const int64_t offset = (int64_t)((uint64_t)(uint32_t)p->offset_high << 32 | (uint32_t)p->offset_low);
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    int32_t a_first = 0, b_first = 0, at = 0;
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++, at++) {
            const int64_t sum = element(a, p->a_bytes, a_first + i * p->a_step) * p->a_multiplier +
                                element(b, p->b_bytes, b_first + i * p->b_step) * p->b_multiplier + offset;
            const int64_t level = sum >> p->places;
            const int32_t held = level > most ? most : level < -most - 1 ? -most - 1 : (int32_t)level;
            if (p->y_bytes == 2) {
                ((int16_t *)y)[at] = (int16_t)held;
            } else {
                ((int8_t *)y)[at] = (int8_t)held;
            }
        }
        a_first += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b_first += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}

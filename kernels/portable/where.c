/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/walk.h"
#include <string.h>

static void choose_bytes(const pillion_where_params *p, const int8_t *condition, const int8_t *a, const int8_t *b,
                         int8_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        const int8_t first = a[i * p->a_step], second = b[i * p->b_step];
        y[i] = condition[i * p->condition_step] ? first : second;
    }
}

static void choose_words(const pillion_where_params *p, const int8_t *condition, const int8_t *a, const int8_t *b,
                         int8_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        memcpy(y + 4 * i, condition[i * p->condition_step] ? a + 4 * i * p->a_step : b + 4 * i * p->b_step, 4);
    }
}

static void choose_halves(const pillion_where_params *p, const int8_t *condition, const int8_t *a, const int8_t *b,
                         int8_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        memcpy(y + 2 * i, condition[i * p->condition_step] ? a + 2 * i * p->a_step : b + 2 * i * p->b_step, 2);
    }
}

void pillion_where(const pillion_where_params *p, const int8_t *condition, const void *a, const void *b, void *y,
                   void *scratch) {
    (void)scratch;
    const int8_t *first = a, *second = b;
    int8_t *to = y;
    int32_t condition_at[PILLION_MAX_AXES] = {0}, a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++, to += p->count * p->element_bytes) {
        if (p->element_bytes == 1) {
            choose_bytes(p, condition, first, second, to);
        } else if (p->element_bytes == 2) {
            choose_halves(p, condition, first, second, to);
        } else {
            choose_words(p, condition, first, second, to);
        }
        condition += pillion_walk(p->axes, p->extent, p->condition_row_step, condition_at);
        first += p->element_bytes * pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        second += p->element_bytes * pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}

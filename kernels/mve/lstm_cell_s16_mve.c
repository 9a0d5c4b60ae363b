/* SPDX-License-Identifier: Apache-2.0
 * The new cells of an LSTM step: the sums of three gates, then eight cells at a time. y may be c. */
#include "gates.h"

#if defined(__ARM_FEATURE_MVE)
#include "fixed16.h"

PILLION_BEGINS_WITH(pillion_lstm_cell_s16_mve_params, pillion_mve_gates, places);

static void cells(const pillion_lstm_cell_s16_mve_params *p, const int16_t *sums, const int16_t *c, int16_t *y) {
    const int32_t step = 8 * p->groups, places = p->places;
    const int16x8_t low = vdupq_n_s16((int16_t)p->low), high = vdupq_n_s16((int16_t)p->high);
    for (int32_t left = p->cells; left > 0; left -= 8, sums += 8, c += 8, y += 8) {
        const mve_pred16_t some = vctp16q((uint32_t)left);
        const int16x8_t let_in = pillion_mve_logistic16(vldrhq_s16(sums));
        const int16x8_t candidate = pillion_mve_tanh16(vldrhq_s16(sums + 2 * step), 3);
        const int16x8_t added = pillion_mve_places_less(pillion_mve_products_of(let_in, candidate), places);
        const int16x8_t keep = pillion_mve_logistic16(vldrhq_s16(sums + step));
        const int16x8_t kept = pillion_mve_places_less(pillion_mve_products_of(keep, vldrhq_z_s16(c, some)), 15);
        vstrhq_p_s16(y, vminq_s16(vmaxq_s16(vqaddq_s16(kept, added), low), high), some);
    }
}

void pillion_lstm_cell_s16_mve(const pillion_lstm_cell_s16_mve_params *p, const int8_t *x, const int8_t *h,
                               const int16_t *c, int16_t *y, void *scratch) {
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, h += p->outputs, c += p->cells, y += p->cells) {
        pillion_mve_sums_of_gates((const pillion_mve_gates *)(const void *)p, 3, x, h, scratch);
        cells(p, scratch, c, y);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What an LSTM remembers after a step: the sums of three gates, then cell by cell. y may be c. */
#include "gates.h"

#if PILLION_HAS_DSP
#include "pillion/cells.h"

PILLION_BEGINS_WITH(pillion_lstm_cell_s16_dsp_params, pillion_dsp_gates, places);

void pillion_lstm_cell_s16_dsp(const pillion_lstm_cell_s16_dsp_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                               int16_t *y, void *scratch) {
    const int16_t *const sums = scratch;
    const int32_t step = 4 * p->groups;
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, h += p->outputs, c += p->cells, y += p->cells) {
        pillion_dsp_sums_of_gates((const pillion_dsp_gates *)(const void *)p, 3, x, h, scratch);
        for (int32_t i = 0; i < p->cells; i++) {
            const int32_t cell = pillion_next_cell(sums[i], sums[step + i], sums[2 * step + i], c[i], p->places);
            y[i] = (int16_t)pillion_clamp(cell, p->low, p->high);
        }
    }
}
#endif

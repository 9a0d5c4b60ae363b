/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/cells.h"
#include "pillion/gates.h"

void pillion_lstm_cell_s16(const pillion_lstm_cell_s16_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                           int16_t *y, void *scratch) {
    (void)scratch;
    const pillion_gates gates = PILLION_GATES(p);
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, h += p->outputs, c += p->cells, y += p->cells) {
        for (int32_t i = 0; i < p->cells; i++) {
            const int32_t let_in = pillion_gate(&gates, 0, i, x, h), keep = pillion_gate(&gates, 1, i, x, h);
            const int32_t cell = pillion_next_cell(let_in, keep, pillion_gate(&gates, 2, i, x, h), c[i], p->places);
            y[i] = (int16_t)pillion_clamp(cell, p->low, p->high);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/cells.h"
#include "pillion/gates.h"

void pillion_lstm_output_s8(const pillion_lstm_output_s8_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                            int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_gates gates = PILLION_GATES(p);
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, h += p->outputs, c += p->cells, y += p->cells) {
        for (int32_t i = 0; i < p->cells; i++) {
            const int32_t product = pillion_shown_cell(pillion_gate(&gates, 0, i, x, h), c[i], p->integer_bits);
            y[i] = pillion_saturate(pillion_requantize(product, p->out_multiplier, p->out_shift), p->out_zp, -128, 127);
        }
    }
}

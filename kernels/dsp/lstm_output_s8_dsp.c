/* SPDX-License-Identifier: Apache-2.0
 * What an LSTM answers in a step: the sums of a gate, then cell by cell. */
#include "gates.h"

#if PILLION_HAS_DSP
#include "pillion/cells.h"

PILLION_BEGINS_WITH(pillion_lstm_output_s8_dsp_params, pillion_dsp_gates, integer_bits);

void pillion_lstm_output_s8_dsp(const pillion_lstm_output_s8_dsp_params *p, const int8_t *x, const int8_t *h,
                                const int16_t *c, int8_t *y, void *scratch) {
    const int16_t *const sums = scratch;
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, h += p->outputs, c += p->cells, y += p->cells) {
        pillion_dsp_sums_of_gates((const pillion_dsp_gates *)(const void *)p, 1, x, h, scratch);
        for (int32_t i = 0; i < p->cells; i++) {
            const int32_t product = pillion_shown_cell(sums[i], c[i], p->integer_bits);
            y[i] = pillion_saturate(pillion_requantize(product, p->out_multiplier, p->out_shift), p->out_zp, -128, 127);
        }
    }
}
#endif

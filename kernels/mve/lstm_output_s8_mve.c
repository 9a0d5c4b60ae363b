/* SPDX-License-Identifier: Apache-2.0
 * The outputs of an LSTM step: the sums of a gate, then eight cells at a time. */
#include "gates.h"

#if defined(__ARM_FEATURE_MVE)
#include "fixed16.h"

PILLION_BEGINS_WITH(pillion_lstm_output_s8_mve_params, pillion_mve_gates, integer_bits);

static int32x4_t requantized(const pillion_lstm_output_s8_mve_params *p, int32x4_t x) {
    const int32x4_t h = vqrdmulhq_n_s32(x, p->out_multiplier);
    return vrshlq_n_s32(vqdmlahq_n_s32(h, h, p->out_fix), p->out_shift);
}

static void cells(const pillion_lstm_output_s8_mve_params *p, const int16_t *sums, const int16_t *c, int8_t *y) {
    for (int32_t left = p->cells; left > 0; left -= 8, sums += 8, c += 8, y += 8) {
        const mve_pred16_t some = vctp16q((uint32_t)left);
        const int16x8_t shown = pillion_mve_logistic16(vldrhq_s16(sums));
        const int16x8_t cell = pillion_mve_tanh16(vldrhq_z_s16(c, some), p->integer_bits);
        pillion_mve_products made = pillion_mve_products_of(shown, cell);
        made.even = requantized(p, made.even);
        made.odd = requantized(p, made.odd);
        const int16x8_t wide = vqaddq_n_s16(pillion_mve_saturated16(made), (int16_t)p->out_zp);
        vstrbq_p_s16(y, vminq_s16(vmaxq_s16(wide, vdupq_n_s16(-128)), vdupq_n_s16(127)), some);
    }
}

void pillion_lstm_output_s8_mve(const pillion_lstm_output_s8_mve_params *p, const int8_t *x, const int8_t *h,
                                const int16_t *c, int8_t *y, void *scratch) {
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, h += p->outputs, c += p->cells, y += p->cells) {
        pillion_mve_sums_of_gates((const pillion_mve_gates *)(const void *)p, 1, x, h, scratch);
        cells(p, scratch, c, y);
    }
}

#endif

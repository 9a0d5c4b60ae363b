/* SPDX-License-Identifier: Apache-2.0
 * Quotients as products with a factor for each divisor: SMMLAR shifts them to the right by 32, rounded half up, and adds the zero point. y may
 * be either operand. */
#include "dot.h"

#if PILLION_HAS_DSP

static inline int8_t quotient(const pillion_div_s8_dsp_params *p, int32_t a, int32_t factor) {
    int32_t level = (a - p->a_zp) * 512;
    __asm("smmlar %0, %1, %2, %3" : "=r"(level) : "r"(level), "r"(factor), "r"(p->out_zp));
    __asm("ssat %0, #8, %1" : "=r"(level) : "r"(level));
    return (int8_t)level;
}

void pillion_div_s8_dsp(const pillion_div_s8_dsp_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_div_s8_dsp_params held = *p;
    const int32_t *const factors = held.factors;
    int8_t *out = y;
    for (int32_t row = held.rows; row > 0; row--, a += held.a_row_step, b += held.b_row_step, out += held.count) {
        if (held.b_step) {
            for (int32_t i = 0; i < held.count; i++) {
                out[i] = quotient(&held, a[i], factors[(uint8_t)b[i]]);
            }
        } else {
            const int32_t factor = factors[(uint8_t)*b];
            for (int32_t i = 0; i < held.count; i++) {
                out[i] = quotient(&held, a[i], factor);
            }
        }
    }
    pillion_dsp_clamp(y, (int32_t)(out - y), held.low, held.high);
}
#endif

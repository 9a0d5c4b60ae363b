/* SPDX-License-Identifier: Apache-2.0
 * Sums in 16 bits: two SMLAL to a sum of 64 bits. Operands are shifted to the left, so that the answer is in its upper word. y may be a
 * or b. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

typedef pillion_wide_add_dsp_params params;
#include "wide_rows.h"

PILLION_INLINE void elements(const params *p, const void *a, int32_t a_bytes, const void *b, int32_t b_bytes, void *y,
                             int32_t y_bytes) {
    const int32_t a_multiplier = p->a_multiplier, b_multiplier = p->b_multiplier;
    const uint32_t left = (uint32_t)p->left, right = (uint32_t)p->right;
    const int64_t offset = (int64_t)((uint64_t)(uint32_t)p->offset_high << 32 | (uint32_t)p->offset_low);
    if (a_bytes == 2 && y_bytes == 2 && b_multiplier == 0) { /* one operand alone */
        const int16_t *x = a;
        int16_t *to = y;
        for (int32_t count = p->count; count > 0; count--) {
            const int64_t sum = offset + (int64_t)(int32_t)((uint32_t)*x++ << left) * a_multiplier;
            wide_store(to++, 2, 0, (int32_t)(sum >> 32) >> right);
        }
        return;
    }
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t first = (int32_t)((uint32_t)pillion_element(a, a_bytes, i) << left);
        const int32_t second = (int32_t)((uint32_t)pillion_element(b, b_bytes, i) << left);
        const int64_t sum = offset + (int64_t)first * a_multiplier + (int64_t)second * b_multiplier;
        wide_store(y, y_bytes, i, (int32_t)(sum >> 32) >> right);
    }
}

void pillion_wide_add_dsp(const params *p, const void *a, const void *b, void *y, void *scratch) {
    (void)scratch;
    wide_rows(p, a, b, y);
}
#endif

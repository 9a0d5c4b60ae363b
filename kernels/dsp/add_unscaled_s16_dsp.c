/* SPDX-License-Identifier: Apache-2.0
 * Sums and differences of 16-bit tensors that have the same steps, two elements at a time. y may be a or b. */
#include "dot16.h"

#if PILLION_HAS_DSP
#include <string.h>

#define BOTH(name, operation)                                                     \
    static inline uint32_t name(uint32_t a, uint32_t b) {                         \
        __asm(operation : "+r"(a) : "r"(b));                                      \
        return a;                                                                 \
    }
BOTH(sums, "qadd16 %0, %0, %1")
BOTH(differences, "qsub16 %0, %0, %1")
BOTH(rectified_sums, "qadd16 %0, %0, %1\n\tusat16 %0, #15, %0")

PILLION_INLINE void make_row(const int16_t *a, const int16_t *b, int16_t *y, int32_t count,
                             uint32_t (*both)(uint32_t, uint32_t)) {
    const int16_t *const end = a + (count & ~1);
    while (a < end) {
        uint32_t first, second;
        memcpy(&first, a, 4);
        memcpy(&second, b, 4);
        first = both(first, second);
        memcpy(y, &first, 4);
        a += 2;
        b += 2;
        y += 2;
    }
    if (count & 1) {
        *y = (int16_t)both((uint16_t)*a, (uint16_t)*b);
    }
}

void pillion_add_unscaled_s16_dsp(const pillion_add_unscaled_s16_dsp_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                                  void *scratch) {
    (void)scratch;
    const int32_t is_rectified = p->sign > 0 && pillion_dsp_is_rectified(p->low, p->high);
    int16_t *to = y;
    for (int32_t row = 0; row < p->rows; row++, a += p->a_row_step, b += p->b_row_step, to += p->count) {
        if (p->sign < 0) {
            make_row(a, b, to, p->count, differences);
        } else if (is_rectified) {
            make_row(a, b, to, p->count, rectified_sums);
        } else {
            make_row(a, b, to, p->count, sums);
        }
    }
    if (!is_rectified) {
        pillion_dsp_clamp_16(y, p->rows * p->count, p->low, p->high);
    }
}
#endif

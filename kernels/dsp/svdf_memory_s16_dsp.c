/* SPDX-License-Identifier: Apache-2.0
 * Memory of filters: all of it moves on by one number, then the new numbers of the filters take their places. y may be memory. */
#include "gates.h"

#if PILLION_HAS_DSP
#include "pillion/remember.h"

void pillion_svdf_memory_s16_dsp(const pillion_svdf_memory_s16_dsp_params *p, const int8_t *x, const int16_t *memory,
                                 int16_t *y, void *scratch) {
    const pillion_dsp_rows rows = {p->stream, p->scalings, p->groups, p->eights};
    const int32_t remembered = p->filters * p->length;
    int32_t *const wide = scratch;
    int16_t *const sums = (int16_t *)(void *)(wide + 4 * p->eights);
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, memory += remembered, y += remembered) {
        pillion_dsp_widen_row(x, p->inputs, wide);
        for (int32_t i = 0; i < 4 * p->groups; i++) {
            sums[i] = 0;
        }
        pillion_dsp_add_rows(&rows, wide, sums);
        pillion_remember(memory, p->filters, p->length, sums, y);
    }
}
#endif

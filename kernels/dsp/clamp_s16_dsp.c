/* SPDX-License-Identifier: Apache-2.0 */
#include "dot16.h"

#if PILLION_HAS_DSP

void pillion_clamp_s16_dsp(const pillion_clamp_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_dsp_clamp_to(y, x, p->count, p->low, p->high);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * The smallest element along neighbouring axes. */
#define SELECT "sel %0, %2, %0"
#include "extremes.h"

#if PILLION_HAS_DSP

void pillion_reduce_min_s8_dsp(const pillion_reduce_min_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    extremes(p, x, y, scratch);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Norms of elements and results of 16 bits that have one group. y may be x. */
#include "dot16.h"

#if PILLION_HAS_DSP
#define STORE "ssat %[t], #16, %[t]\n\tstrh %[t], [%[y]], #2\n\t"
#define CLAMP pillion_dsp_clamp_16
typedef int16_t result;
#include "normalize_wide.h"

void pillion_normalize_s16_s16_dsp(const pillion_normalize_s16_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    all_rows(p, x, y);
}

#endif

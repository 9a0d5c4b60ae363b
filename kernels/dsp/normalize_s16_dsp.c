/* SPDX-License-Identifier: Apache-2.0
 * Norms of elements of 16 bits that have one group, with results of 8 bits. */
#include "dot.h"

#if PILLION_HAS_DSP
#define STORE "ssat %[t], #8, %[t]\n\tstrb %[t], [%[y]], #1\n\t"
#define CLAMP pillion_dsp_clamp
typedef int8_t result;
#include "normalize_wide.h"

void pillion_normalize_s16_dsp(const pillion_normalize_s16_dsp_params *p, const int16_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    all_rows(p, x, y);
}

#endif

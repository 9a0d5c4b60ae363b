/* SPDX-License-Identifier: Apache-2.0
 * Rows of 16-bit elements become columns. */
#include <stdint.h>

typedef int16_t element;
#define ELEMENT "h"
#define ELEMENT_BYTES "2"
#include "transpose.h"

#if PILLION_HAS_DSP
void pillion_transpose_s16_dsp(const pillion_transpose_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    transpose(p, x, y);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Rows of 8-bit elements become columns. */
#include <stdint.h>

typedef int8_t element;
#define ELEMENT "b"
#define ELEMENT_BYTES "1"
#include "transpose.h"

#if PILLION_HAS_DSP
void pillion_transpose_s8_dsp(const pillion_transpose_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    transpose(p, x, y);
}
#endif

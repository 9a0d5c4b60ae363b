/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int16_t element;
#include "div.h"

void pillion_div_s16(const pillion_div_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y, void *scratch) {
    (void)scratch;
    divide(p, a, b, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int8_t element;
#include "div.h"

void pillion_div_s8(const pillion_div_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    divide(p, a, b, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int8_t element;
#include "arg_extreme.h"

void pillion_arg_max_s8(const pillion_arg_max_s8_params *p, const int8_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    places_of_extremes(p, x, 1, y);
}

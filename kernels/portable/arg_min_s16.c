/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int16_t element;
#include "arg_extreme.h"

void pillion_arg_min_s16(const pillion_arg_min_s16_params *p, const int16_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    places_of_extremes(p, x, 0, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int8_t element;
#include "pillion/window_statistic_each.h"

void pillion_window_statistic_s8(const pillion_window_statistic_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    all_windows(p, x, y);
}

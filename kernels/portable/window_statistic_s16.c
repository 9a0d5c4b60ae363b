/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int16_t element;
#include "pillion/window_statistic_each.h"

void pillion_window_statistic_s16(const pillion_window_statistic_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    all_windows(p, x, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int16_t element;
typedef int64_t total;
#include "bilinear.h"

void pillion_resize_bilinear_rows_s16(const pillion_resize_bilinear_rows_s16_params *p, const int16_t *x, uint32_t first, int16_t *y, void *scratch) {
    (void)scratch;
    resize_rows(p, x, first, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int8_t element;
typedef int32_t total;
#include "bilinear.h"

void pillion_resize_bilinear_s8(const pillion_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    resize(p, x, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Median filters. */
#ifndef PILLION_MEDIAN_H
#define PILLION_MEDIAN_H

#include <stdint.h>

typedef struct {
    int32_t rows, length;
} pillion_median3_s8_params;

/* Each element of a row becomes the median of itself and its two neighbours; the ends are repeated. */
void pillion_median3_s8(const pillion_median3_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

#endif

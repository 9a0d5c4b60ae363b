/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

typedef int16_t element;
#include "pillion/suppression.h"

void pillion_non_max_suppression_s16(const pillion_non_max_suppression_s16_params *p, const int16_t *boxes, const int16_t *scores,
                                     int32_t *y, void *scratch) {
    pillion_suppress(p, boxes, scores, y, scratch);
}

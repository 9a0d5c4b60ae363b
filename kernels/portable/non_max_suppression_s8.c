/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

typedef int8_t element;
#include "pillion/suppression.h"

void pillion_non_max_suppression_s8(const pillion_non_max_suppression_s8_params *p, const int8_t *boxes, const int8_t *scores,
                                    int32_t *y, void *scratch) {
    pillion_suppress(p, boxes, scores, y, scratch);
}

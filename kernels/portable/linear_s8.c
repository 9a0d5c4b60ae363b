/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/linear.h"

void pillion_linear_s8(const pillion_linear_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const pillion_channels c = {.weights = p->weights, .bias = p->bias, .multiplier = p->multiplier, .shift = p->shift,
                                .count = p->out_features, .fours = (p->in_features + 3) / 4,
                                .out_zp = p->out_zp, .low = p->low, .high = p->high};
    pillion_linear(&c, x, p->rows, p->in_features, y, scratch, pillion_finish);
}

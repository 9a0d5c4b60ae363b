/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

enum { BOOL, UINT8, INT32, FLOAT32, INT8, INT16 };

static int32_t number(const pillion_cast_params *p, const void *x, int32_t i) {
    if (p->from == INT32) {
        return ((const int32_t *)x)[i];
    }
    if (p->from == INT16) {
        return ((const int16_t *)x)[i];
    }
    return p->from == INT8 ? ((const int8_t *)x)[i] : ((const uint8_t *)x)[i];
}

/* A loop for each type: a compiler puts conversions to float under a condition otherwise, which not every assembler takes. */
void pillion_cast(const pillion_cast_params *p, const void *x, void *y, void *scratch) {
    (void)scratch;
    if (p->to == INT32) {
        for (int32_t i = 0; i < p->count; i++) {
            ((int32_t *)y)[i] = number(p, x, i);
        }
    } else if (p->to == INT16) {
        for (int32_t i = 0; i < p->count; i++) {
            ((int16_t *)y)[i] = (int16_t)number(p, x, i);
        }
    } else if (p->to == UINT8 || p->to == INT8) {
        for (int32_t i = 0; i < p->count; i++) {
            ((uint8_t *)y)[i] = (uint8_t)number(p, x, i);
        }
    } else if (p->to == BOOL) {
        for (int32_t i = 0; i < p->count; i++) {
            ((uint8_t *)y)[i] = number(p, x, i) != 0;
        }
    } else {
        for (int32_t i = 0; i < p->count; i++) {
            ((float *)y)[i] = (float)number(p, x, i);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

enum { BOOL, UINT8, INT32 };

void pillion_cast(const pillion_cast_params *p, const void *x, void *y, void *scratch) {
    (void)scratch;
    const uint8_t *small = x;
    const int32_t *wide = x;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t number = p->from == INT32 ? wide[i] : small[i];
        if (p->to == BOOL) {
            ((uint8_t *)y)[i] = number != 0;
        } else if (p->to == UINT8) {
            ((uint8_t *)y)[i] = (uint8_t)number;
        } else if (p->to == INT32) {
            ((int32_t *)y)[i] = number;
        } else {
            ((float *)y)[i] = (float)number;
        }
    }
}

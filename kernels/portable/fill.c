/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "pillion/kernels.h"

void pillion_fill(const pillion_fill_params *p, void *y, void *scratch) {
    (void)scratch;
    uint8_t *to = y;
    if (memcmp(p->element, p->element + 1, (size_t)p->element_bytes - 1) == 0) {
        memset(to, p->element[0], (size_t)(p->count * p->element_bytes));
        return;
    }
    for (int32_t i = 0; i < p->count; i++) {
        for (int32_t byte = 0; byte < p->element_bytes; byte++) {
            *to++ = p->element[byte];
        }
    }
}

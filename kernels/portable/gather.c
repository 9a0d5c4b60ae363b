/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include <string.h>

enum { FEW = 16 }; /* bytes that are copied before a call would have begun */

static void copy(uint8_t *to, const uint8_t *from, int32_t bytes) {
    if (bytes >= FEW) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}

void pillion_gather(const pillion_gather_params *p, const void *x, const int32_t *numbers, void *y, void *scratch) {
    (void)scratch;
    const uint8_t *from = x;
    uint8_t *to = y;
    for (int32_t batch = 0; batch < p->batch; batch++, numbers += p->count) {
        for (int32_t outer = 0; outer < p->outer; outer++, from += p->size * p->inner_bytes) {
            for (int32_t i = 0; i < p->count; i++, to += p->inner_bytes) {
                const int32_t wanted = numbers[i];
                const int32_t number = wanted < 0 ? 0 : wanted < p->size ? wanted : p->size - 1;
                copy(to, from + number * p->inner_bytes, p->inner_bytes);
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "pillion/layers16.h"

/* The root of a normal number, correctly rounded, bit by bit: the same on cores that have an instruction for it, and on others
 * without a mathematical library. */
static float root(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    const int32_t exponent = (int32_t)(bits >> 23) - 127;
    uint64_t rest = (uint64_t)((bits & 0x7FFFFF) | 0x800000) << (23 + (exponent & 1));
    uint64_t found = 0;
    for (uint64_t bit = (uint64_t)1 << 46; bit != 0; bit >>= 2) {
        const uint64_t with_bit = found + bit;
        found >>= 1;
        if (rest >= with_bit) {
            rest -= with_bit;
            found += bit;
        }
    }
    const uint32_t mantissa = (uint32_t)found + (rest > found);
    bits = ((uint32_t)((exponent - (exponent & 1)) / 2 + 126) << 23) + mantissa;
    memcpy(&number, &bits, sizeof bits);
    return number;
}

void pillion_sqrt_s16(const pillion_sqrt_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const float steps = x[i] <= 0 ? 0.0F : root((float)x[i] * p->scale) / p->step;
        y[i] = steps < 32767.0F ? (int16_t)steps : 32767;
    }
}

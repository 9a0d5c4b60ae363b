/* SPDX-License-Identifier: Apache-2.0
 * Norms of elements of 16 bits that have one group, for kernels that say before what a `result` is, how STORE rounds one off, and
 * what CLAMP is: sums and squares of two take four instructions. */
#define LOAD "ldrsh %[t], [%[x]], #2\n\t"
typedef int16_t element;
#include "normalize.h"

static pillion_standard standard_of(const pillion_normalize_s8_params *p, const int16_t *x) {
    int32_t sum = 0, left = p->elements, pair;
    uint32_t low = 0, high = 0;
    const int32_t ones = 0x00010001;
    for (; left >= 2; left -= 2) {
        __asm volatile(
            "ldr %3, [%0], #4\n\t"
            "smlad %1, %3, %5, %1\n\t"
            "smlald %2, %4, %3, %3\n\t"
            : "+&r"(x), "+&r"(sum), "+&r"(low), "=&r"(pair), "+&r"(high)
            : "r"(ones)
            : "memory");
    }
    int64_t squares = (int64_t)((uint64_t)high << 32 | low);
    if (left > 0) {
        sum += *x;
        squares += *x * *x;
    }
    return pillion_standard_of(p, sum, squares);
}

static void all_rows(const pillion_normalize_s8_params *p, const int16_t *x, result *y) {
    const int32_t count = p->rows * p->elements;
    for (int32_t at = 0; at < count; at += p->elements) {
        one_group(p, standard_of(p, x + at), x + at, y + at);
    }
    CLAMP(y, count, p->low, p->high);
}

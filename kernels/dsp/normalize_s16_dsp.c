/* SPDX-License-Identifier: Apache-2.0
 * Norms of elements of 16 bits that have one group: sums and squares of two take four instructions. */
#include "dot.h"

#if PILLION_HAS_DSP
#define LOAD "ldrsh %[t], [%[x]], #2\n\t"
typedef int16_t element;
#include "normalize.h"

typedef pillion_normalize_s16_dsp_params params;

static pillion_standard standard_of(const params *p, const int16_t *x) {
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

void pillion_normalize_s16_dsp(const params *p, const int16_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->elements, y += p->elements) {
        one_group(p, standard_of(p, x), x, y);
        if (p->low > -128 || p->high < 127) {
            pillion_dsp_clamp(y, p->elements, p->low, p->high);
        }
    }
}
#endif

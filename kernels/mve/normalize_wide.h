/* SPDX-License-Identifier: Apache-2.0
 * Norms of 16-bit elements in one group. The including kernel defines the type `result`, and STORE (four results from q0). */
#define LOAD "vldrh.s32 q0, [%[x]], #8\n"
typedef int16_t element;
#include "normalize.h"

static pillion_standard standard_of(const pillion_normalize_s8_params *p, const int16_t *x) {
    int32_t sum = 0;
    register uint32_t low __asm__("r2") = 0;
    register uint32_t high __asm__("r3") = 0;
    __asm__ volatile(
        "wlstp.16 lr, %[count], 2f\n"
        "1: vldrh.u16 q0, [%[x]], #16\n"
        "vaddva.s16 %[sum], q0\n"
        "vmlaldava.s16 %[low], %[high], q0, q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [sum] "+&Te"(sum), [low] "+&r"(low), [high] "+&r"(high)
        : [count] "r"(p->elements)
        : "lr", "q0", "cc", "memory");
    return pillion_standard_of(p, sum, (int64_t)((uint64_t)high << 32 | low));
}

static void all_rows(const pillion_normalize_s8_params *p, const int16_t *x, result *y) {
    for (int32_t row = 0; row < p->rows; row++, x += p->elements, y += p->elements) {
        one_group(p, standard_of(p, x), x, y);
    }
}

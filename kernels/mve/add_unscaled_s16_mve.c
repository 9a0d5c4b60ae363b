/* SPDX-License-Identifier: Apache-2.0
 * Sums and differences of 16-bit tensors that have the same steps: eight elements are six instructions. y may be a or b. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

#define ROW(name, operation)                                                                                        \
    static void name(const int16_t *a, const int16_t *b, int16_t *y, int32_t count, int32_t low) {                  \
        __asm__ volatile("vdup.16 q2, %[low]\n"                                                                     \
                         "wlstp.16 lr, %[count], 2f\n"                                                              \
                         "1:\n"                                                                                     \
                         "vldrh.u16 q0, [%[a]], #16\n"                                                              \
                         "vldrh.u16 q1, [%[b]], #16\n" operation " q0, q0, q1\n"                                    \
                         "vmax.s16 q0, q0, q2\n"                                                                    \
                         "vstrh.16 q0, [%[y]], #16\n"                                                               \
                         "letp lr, 1b\n"                                                                            \
                         "2:\n"                                                                                     \
                         : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y)                                                 \
                         : [count] "r"(count), [low] "r"(low)                                                       \
                         : "lr", "q0", "q1", "q2", "cc", "memory");                                                 \
    }
ROW(sums, "vqadd.s16")
ROW(differences, "vqsub.s16")

void pillion_add_unscaled_s16_mve(const pillion_add_unscaled_s16_mve_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                                  void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        (p->sign < 0 ? differences : sums)(a + row * p->a_row_step, b + row * p->b_row_step, y + row * p->count, p->count, p->low);
    }
    pillion_mve_clamp_16(y, p->rows * p->count, INT16_MIN, p->high);
}

#endif

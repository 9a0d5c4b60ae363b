/* SPDX-License-Identifier: Apache-2.0
 * Fully connected: one vector of inputs by eight outputs at a time (linear.h). */
#include "linear.h"

#if defined(__ARM_FEATURE_MVE)

#define GROUP_WORDS(chunks) (18 + 32 * (chunks))


static __attribute__((noinline)) void groups(pillion_mve_linear *s, int8_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, PILLION_MVE_LINEAR_MOVE PILLION_MVE_LINEAR_REQUANTIZE);
}

static __attribute__((noinline)) void sums_of_groups(pillion_mve_linear *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, PILLION_MVE_LINEAR_STORE_SUMS);
}

void pillion_linear_s8_mve(const pillion_linear_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_linear_rows(p, x, y, GROUP_WORDS(p->chunks), groups, 0);
}

void pillion_linear_tflite_s8_mve(const pillion_linear_tflite_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_linear_once(p, x, y, scratch, GROUP_WORDS(p->chunks), sums_of_groups, 0);
}

#endif

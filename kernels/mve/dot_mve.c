/* SPDX-License-Identifier: Apache-2.0
 * Dot products of bytes. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define EIGHT 8
#define GROUP_WORDS(chunks) (18 + 32 * (chunks))
#define HEAD_WORDS 10
#include "dot_columns.h"

void pillion_mve_dot(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

void pillion_mve_dot_groups(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t count) {
    groups(d, x, y, 0, count);
}

#endif

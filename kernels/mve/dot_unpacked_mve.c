/* SPDX-License-Identifier: Apache-2.0
 * Dot products with weights of four bits that are unpacked for all pixels. */
#include "unpack.h"

#if defined(__ARM_FEATURE_MVE)
void pillion_mve_dot_unpacked(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    pillion_mve_dot_by_unpacking(d, x, y, 8, 40, 2 * d->chunks, pillion_mve_dot, pillion_mve_dot_groups);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 16-bit inputs with weights of four bits that are unpacked for all pixels. */
#include "unpack.h"

#if defined(__ARM_FEATURE_MVE)
void pillion_mve_dot16_unpacked(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    pillion_mve_dot_by_unpacking(d, x, y, 16, 32, d->chunks, pillion_mve_dot16, pillion_mve_dot16_groups);
}
#endif

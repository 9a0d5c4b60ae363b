/* SPDX-License-Identifier: Apache-2.0
 * Weights of four bits become bytes eight channels at a time, for all pixels of the planes. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "unpack.h"

enum { HEAD = 40 }; /* bytes of shifts and multipliers */

static void output_rows(const pillion_conv2d_3x3_s4_mve_params *p, int8_t *planes, int8_t *y, int32_t rows) {
    const int32_t vectors = 2 * 9 * p->planes; /* of each half of the channels */
    const int8_t *constants = (const int8_t *)p->constants;
    int8_t *const group = pillion_mve_behind_planes(p, planes);
    for (int32_t channel = 0; channel < p->out_c; channel += 8, constants += HEAD + 32 + 32 * vectors) {
        const int32_t first = channel < p->out_c - 8 ? channel : p->out_c - 8; /* the last eight, perhaps some of them again */
        pillion_mve_unpack_group(group, constants, HEAD, vectors);
        pillion_mve_3x3_eights(p, planes, y + first, rows, 1, (const int32_t *)(const void *)group);
    }
}

void pillion_conv2d_3x3_s4_mve(const pillion_conv2d_3x3_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_planes(p, x, y, scratch, output_rows);
}

#endif

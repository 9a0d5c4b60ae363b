/* SPDX-License-Identifier: Apache-2.0
 * The sums of the gates of recurrent layers, eight rows of weights at a time. */
#ifndef PILLION_MVE_GATES_H
#define PILLION_MVE_GATES_H

#include "pillion/assembly.h"
#include "pillion/mve.h"

/* Adds a row of weights to the sums of a gate, in 16 bits: sums[i] = saturate(sums[i] + requantize(weights[i] * x)). */
typedef struct {
    const int32_t *constants; /* of eight rows, even ones first: bias, int8 weights[chunks][8][16] */
    const int32_t *scaling;   /* multiplier, shift to the right as a negative number, 1 where there is one, else 0, shift to the left */
    int32_t groups, chunks;   /* of eight rows; of 16 inputs */
} pillion_mve_rows;

void pillion_mve_add_rows(const pillion_mve_rows *rows, const int8_t *x, int16_t *sums);

typedef struct {
    PILLION_MVE_GATES_FIELDS
} pillion_mve_gates;

/* The sums of all gates of one input; the sums of a gate fill whole groups. */
static inline void pillion_mve_sums_of_gates(const pillion_mve_gates *p, int32_t gates, const int8_t *x, const int8_t *h,
                                             int16_t *sums) {
    pillion_mve_rows first = {p->constants, p->scalings, p->groups, p->chunks};
    pillion_mve_rows second = {p->recurrent_constants, p->scalings + 4 * gates, p->groups, p->recurrent_chunks};
    for (int32_t gate = 0; gate < gates; gate++, sums += 8 * p->groups) {
        for (int32_t i = 0; i < 8 * p->groups; i++) {
            sums[i] = 0;
        }
        pillion_mve_add_rows(&first, x, sums);
        pillion_mve_add_rows(&second, h, sums);
        first.constants += first.groups * (8 + 32 * first.chunks);
        second.constants += second.groups * (8 + 32 * second.chunks);
        first.scaling += 4;
        second.scaling += 4;
    }
}

#endif

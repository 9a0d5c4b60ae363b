/* SPDX-License-Identifier: Apache-2.0
 * The new value of an LSTM cell, and its output, from the sums of its gates. */
#ifndef PILLION_CELLS_H
#define PILLION_CELLS_H

#include "pillion/fixed16.h"

/* forget * c + input * candidate, which has 17 bits. */
static inline int32_t pillion_next_cell(int32_t let_in, int32_t keep, int32_t candidate, int32_t c, int32_t places) {
    const int32_t kept = pillion_saturate16(pillion_places_less(pillion_logistic16(keep) * c, 15));
    const int32_t new = pillion_logistic16(let_in) * pillion_tanh16(candidate, 3);
    return kept + pillion_saturate16(pillion_places_less(new, places));
}

/* The product of the output gate and tanh(c), with 30 fraction bits. */
static inline int32_t pillion_shown_cell(int32_t gate, int32_t c, int32_t integer_bits) {
    return pillion_logistic16(gate) * pillion_tanh16(c, integer_bits);
}

#endif

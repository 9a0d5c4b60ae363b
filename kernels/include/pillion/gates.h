/* SPDX-License-Identifier: Apache-2.0
 * The sums of the gates of an LSTM, which both halves of a step share. */
#ifndef PILLION_GATES_H
#define PILLION_GATES_H

#include "pillion/fixed16.h"
#include "pillion/kernels.h"
#include "pillion/products.h"

typedef struct {
    PILLION_GATES_FIELDS
} pillion_gates;

#define PILLION_GATES(p)                                                                                           \
    {.batch = (p)->batch, .inputs = (p)->inputs, .outputs = (p)->outputs, .cells = (p)->cells,                     \
     .weights = (p)->weights, .recurrent = (p)->recurrent, .bias = (p)->bias, .recurrent_bias = (p)->recurrent_bias, \
     .multiplier = (p)->multiplier, .shift = (p)->shift, .recurrent_multiplier = (p)->recurrent_multiplier,        \
     .recurrent_shift = (p)->recurrent_shift}

/* The sum of gate `gate` of cell `cell`, in 16 bits with three integer bits. */
static inline int32_t pillion_gate(const pillion_gates *p, int32_t gate, int32_t cell, const int8_t *x, const int8_t *h) {
    const int32_t row = gate * p->cells + cell;
    const int32_t from_input = p->bias[row] + pillion_products(x, p->weights + row * p->inputs, p->inputs);
    const int32_t first = pillion_saturate16(pillion_requantize(from_input, p->multiplier[gate], p->shift[gate]));
    const int32_t from_output =
        p->recurrent_bias[row] + pillion_products(h, p->recurrent + row * p->outputs, p->outputs);
    return pillion_saturate16(
        pillion_requantize(from_output, p->recurrent_multiplier[gate], p->recurrent_shift[gate]) + first);
}

#endif

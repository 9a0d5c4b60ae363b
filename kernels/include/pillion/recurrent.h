/* SPDX-License-Identifier: Apache-2.0
 * Portable kernels of ops that remember: LSTMs, and filters over time. As kernels.h says, which includes this file. */
#ifndef PILLION_RECURRENT_H
#define PILLION_RECURRENT_H

#include <stdint.h>

/* Gates of an LSTM: of each, weights [cells][inputs] and [cells][outputs], biases with the zero points folded in, and
 * multipliers from products to 16 bits with three integer bits. */
#define PILLION_GATES_FIELDS                                                                    \
    int32_t batch, inputs, outputs, cells;                                                      \
    const int8_t *weights, *recurrent;                                                          \
    const int32_t *bias, *recurrent_bias;                                                       \
    const int32_t *multiplier, *shift, *recurrent_multiplier, *recurrent_shift; /* [gates] */

/* y = clamp(forget * c + input * candidate, low, high), of the gates input, forget and candidate. y may lie on c. */
typedef struct {
    PILLION_GATES_FIELDS
    int32_t places, low, high; /* from products of two fractions to steps of c */
} pillion_lstm_cell_s16_params;
void pillion_lstm_cell_s16(const pillion_lstm_cell_s16_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                           int16_t *y, void *scratch);

/* y = output gate * tanh(c), requantized. */
typedef struct {
    PILLION_GATES_FIELDS
    int32_t integer_bits; /* of c */
    int32_t out_multiplier, out_shift, out_zp;
} pillion_lstm_output_s8_params;
void pillion_lstm_output_s8(const pillion_lstm_output_s8_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                            int8_t *y, void *scratch);

/* Memory of filters [batch][filters][length]: all moves on by one, and behind the rest comes x * weights. y may lie on memory. */
typedef struct {
    int32_t batch, inputs, filters, length;
    int32_t multiplier, shift;
    const int8_t *weights; /* [filters][inputs] */
    const int32_t *bias;   /* [filters]: -in_zp * sum(w) */
} pillion_svdf_memory_s16_params;
void pillion_svdf_memory_s16(const pillion_svdf_memory_s16_params *p, const int8_t *x, const int16_t *memory, int16_t *y,
                             void *scratch);

/* Sums of memory [batch][units][filters of a unit * length] with weights of the same shape; they wrap in 32 bits. */
typedef struct {
    int32_t batch, units, remembered; /* by a unit: filters * length */
    int32_t multiplier, shift, out_zp;
    const int16_t *weights;
    const int32_t *bias; /* [units] */
} pillion_svdf_output_s8_params;
void pillion_svdf_output_s8(const pillion_svdf_output_s8_params *p, const int16_t *memory, int8_t *y, void *scratch);

#endif

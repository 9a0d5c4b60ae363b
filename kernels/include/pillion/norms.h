/* SPDX-License-Identifier: Apache-2.0
 * Portable kernels of softmaxes and norms. As kernels.h says, which includes this file. */
#ifndef PILLION_NORMS_H
#define PILLION_NORMS_H

#include <stdint.h>

/* The logarithm of softmax along rows of `count` elements, in steps of 1/16 from 127 down. */
typedef struct {
    int32_t rows, count;
    int32_t multiplier, shift;           /* from steps of x to Q5.26 */
    int32_t back_multiplier, back_shift; /* from Q5.26 to steps of x */
    int32_t farthest;                    /* the difference of x from which on exponentials are 0, negative */
    int32_t exponentials_count;
    const int32_t *exponentials; /* [exponentials_count]: exp(-i * in_scale) in Q0.31; 0 beyond */
} pillion_log_softmax_s8_params;
void pillion_log_softmax_s8(const pillion_log_softmax_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Rows of `count` elements divided by their lengths, in steps of 1/128. y may be x. */
typedef struct {
    int32_t rows, count, in_zp;
    int32_t headroom; /* bits that elements are moved to the left before they are multiplied: 0 or 7 */
} pillion_l2_normalize_s8_params;
void pillion_l2_normalize_s8(const pillion_l2_normalize_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Norms: of x[rows][positions][groups][inner], the elements of a group in all positions of a row have one mean and one variance, in the
 * fixed point that `normalize.h` explains. Each element is then multiplied by the factor of its channel, its offset added to
 * the upper half of the product, and the sum shifted to the right. y may be x. */
typedef struct {
    int32_t rows, positions, groups, inner, elements; /* elements = positions * inner */
    int32_t in_zp, centred;                           /* centred: the mean is subtracted, else in_zp */
    int32_t mean_multiplier, mean_shift;              /* from a sum to a mean with mean_bits fraction bits */
    int32_t variance_bits, added_high, added_low;     /* the left shift of a variance, and the number added to it */
    int32_t factor_bits, places, low, high;
    int32_t each_channel;   /* 1: there are factors and offsets for each channel; 0: one for all */
    const int32_t *factors; /* [groups * inner] or [1] */
    const int32_t *offsets; /* as many */
    int32_t mean_bits;
} pillion_normalize_s8_params;
void pillion_normalize_s8(const pillion_normalize_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Norms of elements of 16 bits. */
typedef pillion_normalize_s8_params pillion_normalize_s16_params;
void pillion_normalize_s16(const pillion_normalize_s16_params *p, const int16_t *x, int8_t *y, void *scratch);

/* Norms of elements and results of 16 bits. */
typedef pillion_normalize_s8_params pillion_normalize_s16_s16_params;
void pillion_normalize_s16_s16(const pillion_normalize_s16_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Softmax along rows of `count` elements, in fixed point; the result is in steps of 2^(places - 43) from -128, or of that over `factor`
 * in Q0.31 where it is not 0. */
typedef struct {
    int32_t rows, count, places, factor, exponentials_count;
    const int32_t *exponentials; /* [exponentials_count]: exp(-i * in_scale) in Q0.31; 0 beyond */
} pillion_softmax_s8_params;
void pillion_softmax_s8(const pillion_softmax_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Softmax with shares of 16 bits, from -32768. */
typedef pillion_softmax_s8_params pillion_softmax_s8_s16_params;
void pillion_softmax_s8_s16(const pillion_softmax_s8_s16_params *p, const int8_t *x, int16_t *y, void *scratch);

/* Softmax without a table. Scratch: 4 bytes for each element of a row. */
typedef struct {
    int32_t rows, count, places, factor;
    int32_t multiplier, shift; /* from steps of the input to Q5.26 */
    int32_t farthest;          /* below the largest; 0 beyond */
} pillion_softmax_few_s8_params;
void pillion_softmax_few_s8(const pillion_softmax_few_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

#endif

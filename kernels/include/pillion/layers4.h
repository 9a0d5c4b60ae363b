/* SPDX-License-Identifier: Apache-2.0
 * Layers with weights of four bits, two in a byte, the first in the low half. */
#ifndef PILLION_LAYERS4_H
#define PILLION_LAYERS4_H

#include <stdint.h>

#include "pillion/layers16.h"

/* Convolution, as conv2d_s8. The weights of each output channel begin with a byte of their own. Scratch: the weights of one channel as bytes. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c] */
    const int32_t *shift;      /* [out_c]: positive is a left shift */
} pillion_conv2d_s4_params;
void pillion_conv2d_s4(const pillion_conv2d_s4_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Fully connected, as linear_tflite_s8, with weights and scratch as above. */
typedef struct {
    int32_t rows, in_features, out_features;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights; /* [out_features][in_features] */
    const int32_t *bias;   /* [out_features] */
    const double *scale;   /* [out_features] */
} pillion_linear_tflite_s4_params;
void pillion_linear_tflite_s4(const pillion_linear_tflite_s4_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Layers of 16-bit operands and results, as conv2d_s16 and linear_tflite_s16. */
typedef pillion_conv2d_s16_params pillion_conv2d_s16_s4_params;
void pillion_conv2d_s16_s4(const pillion_conv2d_s16_s4_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_linear_tflite_s16_params pillion_linear_tflite_s16_s4_params;
void pillion_linear_tflite_s16_s4(const pillion_linear_tflite_s16_s4_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Makes bytes of `count` weights; returns where the next ones begin. */
static inline const int8_t *pillion_unpack_4(const int8_t *packed, int32_t count, int8_t *to) {
    for (int32_t i = 0; i < count; i += 2) {
        const int32_t two = *packed++;
        to[i] = (int8_t)(((two & 15) ^ 8) - 8);
        if (i + 1 < count) {
            to[i + 1] = (int8_t)((two - (two & 15)) / 16);
        }
    }
    return packed;
}

#endif

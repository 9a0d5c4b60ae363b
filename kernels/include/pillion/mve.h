/* SPDX-License-Identifier: Apache-2.0
 * The Helium (MVE) variants of the kernels. Their constants are packed by pillion/emitters/c/mve/ in the order in which
 * the loops read them; what a variant needs to be right is checked there, at compile time.
 *
 * "May read N bytes beyond": loads are 16 bytes wide; what is read beyond the end meets zero weights, but must be memory. */
#ifndef PILLION_MVE_H
#define PILLION_MVE_H

#include <stdint.h>

#include "pillion/kernels.h"
#include "pillion/optimized.h"

/* Convolution whose windows lie in one piece: kernel 1x1, any stride, no padding. K = in_c.
 * May read 15 bytes beyond x. */
typedef struct {
    int32_t images, image_bytes;     /* x of one image */
    int32_t rows, row_bytes;         /* rows of output pixels; from one to the next in x */
    int32_t pixels, pixel_bytes;     /* pixels of a row; from one to the next in x */
    int32_t out_c, chunks;           /* K in pieces of 16, rounded up */
    int32_t out_zp, low, high;
    int32_t signs;                   /* pillion_mve_signs, see kernels/mve/dot.h */
    const int32_t *constants;        /* see kernels/mve/dot.h */
} pillion_conv2d_1x1_s8_mve_params;
void pillion_conv2d_1x1_s8_mve(const pillion_conv2d_1x1_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution by 1x1 with in_c <= 32, 48 and 64. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_k32_s8_mve_params, pillion_conv2d_1x1_k48_s8_mve_params,
    pillion_conv2d_1x1_k64_s8_mve_params;
void pillion_conv2d_1x1_k32_s8_mve(const pillion_conv2d_1x1_k32_s8_mve_params *p, const int8_t *x, int8_t *y,
                                   void *scratch);
void pillion_conv2d_1x1_k48_s8_mve(const pillion_conv2d_1x1_k48_s8_mve_params *p, const int8_t *x, int8_t *y,
                                   void *scratch);
void pillion_conv2d_1x1_k64_s8_mve(const pillion_conv2d_1x1_k64_s8_mve_params *p, const int8_t *x, int8_t *y,
                                   void *scratch);

/* Convolution by 1x1 whose sums are shifted left. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_left_s8_mve_params;
void pillion_conv2d_1x1_left_s8_mve(const pillion_conv2d_1x1_left_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution by 1x1 with in_c <= 16, out_c a multiple of 4, pixels >= 4; y is aligned to 4. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_k16_s8_mve_params;
void pillion_conv2d_1x1_k16_s8_mve(const pillion_conv2d_1x1_k16_s8_mve_params *p, const int8_t *x, int8_t *y,
                                   void *scratch);

/* Convolution by a matrix of windows in scratch. A window is kernel_h * runs runs of run_bytes.
 * Scratch: ring_bytes, then `block` patches; see the compiler. */
#define PILLION_IM2COL_FIELDS                                                                             \
    int32_t images, in_h, in_row_bytes;                                                                   \
    int32_t out_w, out_c, kernel_h, stride_h, dilation_h, pad_top;                                        \
    int32_t end_top;                   /* out_h * stride_h - pad_top */                                   \
    int32_t ring_rows, ring_row_bytes; /* as many rows as the window spans, with padding */               \
    int32_t ring_bytes;                /* of all rows, and 16 more */                                     \
    int32_t left_bytes, copy_bytes;    /* of a row: padding on the left, then what comes from the image */ \
    int32_t column_bytes;              /* from a window to the next one: stride_w pixels */               \
    int32_t runs, run_step, run_bytes; /* of one kernel row */                                            \
    int32_t block, patch_bytes;        /* windows at a time; from one patch to the next */                \
    int32_t chunks;                                                                                       \
    int32_t in_zp, out_zp, low, high;                                                                     \
    int32_t signs;                     /* pillion_mve_signs, see kernels/mve/dot.h */               \
    const int32_t *constants;          /* see kernels/mve/dot.h */
typedef struct {
    PILLION_IM2COL_FIELDS
} pillion_conv2d_im2col_s8_mve_params;
void pillion_conv2d_im2col_s8_mve(const pillion_conv2d_im2col_s8_mve_params *p, const int8_t *x, int8_t *y,
                                  void *scratch);

/* Convolution by a matrix of windows whose sums are shifted left. */
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_left_s8_mve_params;
void pillion_conv2d_im2col_left_s8_mve(const pillion_conv2d_im2col_left_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution by a matrix of windows of at most 32, 48 and 64 bytes. */
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_k32_s8_mve_params,
    pillion_conv2d_im2col_k48_s8_mve_params, pillion_conv2d_im2col_k64_s8_mve_params;
void pillion_conv2d_im2col_k32_s8_mve(const pillion_conv2d_im2col_k32_s8_mve_params *p, const int8_t *x, int8_t *y,
                                      void *scratch);
void pillion_conv2d_im2col_k48_s8_mve(const pillion_conv2d_im2col_k48_s8_mve_params *p, const int8_t *x, int8_t *y,
                                      void *scratch);
void pillion_conv2d_im2col_k64_s8_mve(const pillion_conv2d_im2col_k64_s8_mve_params *p, const int8_t *x, int8_t *y,
                                      void *scratch);

/* Convolution by a matrix of windows of at most 16 bytes, out_c a multiple of 4, blocks of at least four; y is aligned to 4. */
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_k16_s8_mve_params;
void pillion_conv2d_im2col_k16_s8_mve(const pillion_conv2d_im2col_k16_s8_mve_params *p, const int8_t *x, int8_t *y,
                                      void *scratch);

/* Convolutions by 1x1 and by a matrix of windows, of 16-bit inputs and results without zero points; windows are made of bytes all the same. Constants as of pillion_mve_dot16,
 * see kernels/mve/dot.h. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_s16_mve_params, pillion_conv2d_1x1_s4_mve_params;
void pillion_conv2d_1x1_s16_mve(const pillion_conv2d_1x1_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_s16_mve_params, pillion_conv2d_im2col_s4_mve_params;
void pillion_conv2d_im2col_s16_mve(const pillion_conv2d_im2col_s16_mve_params *p, const int16_t *x, int16_t *y,
                                   void *scratch);

/* Both of 16-bit inputs and results, for windows of at most 64 inputs. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_few_s16_mve_params;
void pillion_conv2d_1x1_few_s16_mve(const pillion_conv2d_1x1_few_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_few_s16_mve_params;
void pillion_conv2d_im2col_few_s16_mve(const pillion_conv2d_im2col_few_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Both of 8-bit inputs, whose zero point is in the biases, with 16-bit results. Constants as of pillion_mve_dot_s8_s16. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_s8_s16_mve_params, pillion_conv2d_1x1_k16_s8_s16_mve_params,
    pillion_conv2d_1x1_k32_s8_s16_mve_params, pillion_conv2d_1x1_k48_s8_s16_mve_params, pillion_conv2d_1x1_k64_s8_s16_mve_params;
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_s8_s16_mve_params, pillion_conv2d_im2col_k16_s8_s16_mve_params,
    pillion_conv2d_im2col_k32_s8_s16_mve_params, pillion_conv2d_im2col_k48_s8_s16_mve_params, pillion_conv2d_im2col_k64_s8_s16_mve_params;
void pillion_conv2d_1x1_s8_s16_mve(const pillion_conv2d_1x1_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_1x1_k32_s8_s16_mve(const pillion_conv2d_1x1_k32_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_1x1_k48_s8_s16_mve(const pillion_conv2d_1x1_k48_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_1x1_k64_s8_s16_mve(const pillion_conv2d_1x1_k64_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_im2col_s8_s16_mve(const pillion_conv2d_im2col_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_im2col_k32_s8_s16_mve(const pillion_conv2d_im2col_k32_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_im2col_k48_s8_s16_mve(const pillion_conv2d_im2col_k48_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_im2col_k64_s8_s16_mve(const pillion_conv2d_im2col_k64_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
/* out_c is even, and otherwise as k16 above. Constants as of pillion_mve_dot_16_s8_s16. */
void pillion_conv2d_1x1_k16_s8_s16_mve(const pillion_conv2d_1x1_k16_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_conv2d_im2col_k16_s8_s16_mve(const pillion_conv2d_im2col_k16_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);

/* Both of 16-bit inputs with weights of four bits. Constants as of pillion_mve_dot16_4. */
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_s16_s4_mve_params;
void pillion_conv2d_1x1_s16_s4_mve(const pillion_conv2d_1x1_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_s16_s4_mve_params;
void pillion_conv2d_im2col_s16_s4_mve(const pillion_conv2d_im2col_s16_s4_mve_params *p, const int16_t *x, int16_t *y,
                                      void *scratch);

/* Convolution by 3x3, stride 1 or 2 along rows, over planes of 16 channels; out_c >= 8, out_w >= 2.
 * Scratch: scratch_rows rows of the planes. */
typedef struct {
    int32_t images, in_h, in_row_bytes;
    int32_t out_h, out_w, out_c;
    int32_t stride_h, stride_w, pad_top, pad_left;
    int32_t copy_w;                    /* columns of the image that the windows see */
    int32_t planes, plane_bytes;       /* in_c / 16; 16 bytes of each column, with padding */
    int32_t block_rows, scratch_rows;  /* output rows at a time, and the input rows for them */
    int32_t in_zp, out_zp, low, high;
    int32_t signs;                     /* pillion_mve_signs, see kernels/mve/dot.h */
    const int32_t *constants; /* see kernels/mve/dot.h; weights are [row][plane][column], at stride 2 columns 0 2 1 */
} pillion_conv2d_3x3_s8_mve_params;
void pillion_conv2d_3x3_s8_mve(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution by 3x3 as above, with 16-bit results without a zero point. Constants as of pillion_mve_dot_s8_s16, with weights in this order. */
typedef pillion_conv2d_3x3_s8_mve_params pillion_conv2d_3x3_s8_s16_mve_params;
void pillion_conv2d_3x3_s8_s16_mve(const pillion_conv2d_3x3_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);

/* With 8-bit results, at stride 1 along rows; out_c is a multiple of 4, out_w >= 4; y is aligned to 4. Constants, for each group of four
 * channels, in the order 0 2 1 3: bias[4], multiplier[4], shift[4]; weights of the first two, [row][plane][column][channel][16];
 * weights of the others. */
typedef pillion_conv2d_3x3_s8_mve_params pillion_conv2d_3x3_fours_s8_mve_params;
void pillion_conv2d_3x3_fours_s8_mve(const pillion_conv2d_3x3_fours_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution by 3x3 as above, of 16-bit inputs and results without zero points, over planes of 8 channels, at stride 1 or 2 along rows; out_c is even.
 * Constants, for each two channels: bias[2]; factor[2], 2^31 times the ratio of scales; weights [row][plane][column][channel][8], at
 * stride 2 columns 0 2 1. */
typedef pillion_conv2d_3x3_s8_mve_params pillion_conv2d_3x3_s16_mve_params;
void pillion_conv2d_3x3_s16_mve(const pillion_conv2d_3x3_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
/* Convolution by 3x3 as above, of 8-bit inputs with 16-bit results, over planes of 16 channels. */
typedef pillion_conv2d_3x3_s8_mve_params pillion_conv2d_3x3_fours_s8_s16_mve_params;
void pillion_conv2d_3x3_fours_s8_s16_mve(const pillion_conv2d_3x3_fours_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);

/* With a kernel of 3x3 without strides and dilation, any padding, by Winograd's way: inputs lie within 2^14 numbers; in_c is a multiple of 8, out_c
 * of 4. Scratch: inputs of two tiles, jumps, a pixel of the image and one of results. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, pad_top, pad_left, low, high;
    int32_t center;        /* what is added to sums of four inputs, so that they fit 16 bits */
    const int32_t *stream; /* of each four channels int16 weights[16 places][in_c / 8][4 channels][8], 4 * bias, factors: 2^31 times the ratio of scales */
} pillion_conv2d_winograd_s16_mve_params;
void pillion_conv2d_winograd_s16_mve(const pillion_conv2d_winograd_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Those whose results are as wide as their inputs with weights of four bits, two vectors of weights in one (kernels/mve/unpack.h). Scratch: the weights of the channels that are
 * computed together behind the planes, at stride 2 their other constants, too. */
typedef pillion_conv2d_3x3_s8_mve_params pillion_conv2d_3x3_s4_mve_params, pillion_conv2d_3x3_fours_s4_mve_params,
    pillion_conv2d_3x3_s16_s4_mve_params;
void pillion_conv2d_3x3_s4_mve(const pillion_conv2d_3x3_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_3x3_fours_s4_mve(const pillion_conv2d_3x3_fours_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_3x3_s16_s4_mve(const pillion_conv2d_3x3_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Depthwise convolution by strips, one channel at a time: 3x3 at stride 1. y may be x where there is one filter for each channel.
 * Scratch: strip_bytes. */
typedef struct {
    int32_t images, image_bytes, output_bytes; /* of one image */
    int32_t channels, filters, strip_bytes;    /* input channels, filters for each */
    const int32_t *build, *passes;             /* see strips.h */
    const int8_t *kernels;                     /* a zero; {3 columns of 3 weights and a zero} x outputs */
    const int32_t *numbers;                    /* {bias, multiplier, shift} x outputs */
    int32_t in_zp, out_zp, low, high;
} pillion_depthwise_3x3_s8_mve_params;
void pillion_depthwise_3x3_s8_mve(const pillion_depthwise_3x3_s8_mve_params *p, const int8_t *x, int8_t *y,
                                         void *scratch);

/* Depthwise convolution by strips: 3x3 at stride 2. */
typedef pillion_depthwise_3x3_s8_mve_params pillion_depthwise_3x3_stride2_s8_mve_params;
void pillion_depthwise_3x3_stride2_s8_mve(const pillion_depthwise_3x3_stride2_s8_mve_params *p, const int8_t *x,
                                            int8_t *y, void *scratch);

/* Depthwise convolution by strips to 16 bits, from 8 bits or from 16; numbers are {bias, factor}: results are sum * factor / 2^31. y may be x as above, of 16 bits. */
typedef pillion_depthwise_3x3_s8_mve_params pillion_depthwise_3x3_s16_mve_params;
void pillion_depthwise_3x3_s16_mve(const pillion_depthwise_3x3_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_3x3_s8_mve_params pillion_depthwise_3x3_stride2_s16_mve_params;
void pillion_depthwise_3x3_stride2_s16_mve(const pillion_depthwise_3x3_stride2_s16_mve_params *p, const int16_t *x, int16_t *y,
                                           void *scratch);
typedef pillion_depthwise_3x3_s8_mve_params pillion_depthwise_3x3_s8_s16_mve_params;
void pillion_depthwise_3x3_s8_s16_mve(const pillion_depthwise_3x3_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_3x3_s8_mve_params pillion_depthwise_3x3_stride2_s8_s16_mve_params;
void pillion_depthwise_3x3_stride2_s8_s16_mve(const pillion_depthwise_3x3_stride2_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                                              void *scratch);

/* Depthwise convolution by 5x5 at stride 1 or 2, one channel at a time. y may be x where there is one filter for each channel.
 * Scratch: 64 + plane_bytes, aligned to 4. */
typedef struct {
    int32_t images, image_bytes, output_bytes; /* of one image */
    int32_t channels, filters, plane_bytes;    /* input channels, filters for each */
    const int32_t *layout;                     /* see kernels/mve/depthwise_5x5.h */
    const int8_t *kernels;                     /* {25 weights and a zero} x outputs */
    const int32_t *numbers;                    /* {bias, multiplier, shift} x outputs */
    int32_t in_zp, out_zp, low, high;
} pillion_depthwise_5x5_s8_mve_params;
void pillion_depthwise_5x5_s8_mve(const pillion_depthwise_5x5_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Depthwise convolution by 5x5 from 16 bits to 16 bits, with kernels of 25 weights, a layout as in kernels/mve/depthwise_5x5_s16_mve.c and plane_bytes of scratch,
 * or from 8 bits to 16; numbers are {bias, factor}: results are sum * factor / 2^31. y may be x as above, of 16 bits. */
typedef pillion_depthwise_5x5_s8_mve_params pillion_depthwise_5x5_s16_mve_params;
void pillion_depthwise_5x5_s16_mve(const pillion_depthwise_5x5_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_5x5_s8_mve_params pillion_depthwise_5x5_s8_s16_mve_params;
void pillion_depthwise_5x5_s8_s16_mve(const pillion_depthwise_5x5_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);

/* Depthwise convolution with any kernel, 16 outputs at a time. Reads up to 15 bytes beyond x. y may be x where block_rows = out_h and
 * filters = 1. Scratch: scratch_bytes. */
typedef struct {
    int32_t images, in_h, in_row_bytes;
    int32_t channels, filters;          /* of outputs; filters for each channel of inputs */
    int32_t out_h, out_w, stride_h, pad_top;
    int32_t left_bytes, copy_w;         /* padding on the left, columns of the image that the windows see */
    int32_t plane_row_bytes;            /* 16 bytes of each column, with padding */
    int32_t window_rows;                /* that a window spans */
    int32_t window_step, window_skip;   /* from window to window; from behind the last one of a row to the next row */
    int32_t block_rows, scratch_bytes;  /* output rows at a time, and the input rows for them */
    int32_t tap_count;                  /* an odd number */
    const int32_t *taps;                /* offset of each tap in a window */
    const int32_t *constants;           /* of 16 channels: bias, int8 weights[tap_count][16], multipliers, int8 shifts;
                                           of numbers those of the channels 0 4 8 12, 2 6 10 14, 1 5 9 13, 3 7 11 15 */
    int32_t in_zp, out_zp, low, high;
} pillion_depthwise_any_s8_mve_params;
void pillion_depthwise_any_s8_mve(const pillion_depthwise_any_s8_mve_params *p, const int8_t *x, int8_t *y,
                                     void *scratch);

/* Depthwise convolution with any kernel, for sums that are shifted left; constants have int8 left shifts, multipliers and int32 factors for right shifts (README.md)
 * behind weights. */
typedef pillion_depthwise_any_s8_mve_params pillion_depthwise_any_left_s8_mve_params;
void pillion_depthwise_any_left_s8_mve(const pillion_depthwise_any_left_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Depthwise convolution with a kernel of 3x3 without dilation, 16 outputs at a time; tap_count is 9. */
typedef pillion_depthwise_any_s8_mve_params pillion_depthwise_3x3_wide_s8_mve_params;
void pillion_depthwise_3x3_wide_s8_mve(const pillion_depthwise_3x3_wide_s8_mve_params *p, const int8_t *x, int8_t *y,
                                       void *scratch);

/* Depthwise convolution with any kernel from 16 bits to 16 bits, eight outputs at a time, whose numbers are those of even channels, then of odd ones; or from 8 bits to 16.
 * Results are sum * multiplier / 2^31, and constants have no shifts. y may be x as above, of 16 bits. */
typedef pillion_depthwise_any_s8_mve_params pillion_depthwise_any_s16_mve_params;
void pillion_depthwise_any_s16_mve(const pillion_depthwise_any_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_any_s8_mve_params pillion_depthwise_3x3_wide_s16_mve_params;
void pillion_depthwise_3x3_wide_s16_mve(const pillion_depthwise_3x3_wide_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_any_s8_mve_params pillion_depthwise_any_s8_s16_mve_params;
void pillion_depthwise_any_s8_s16_mve(const pillion_depthwise_any_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_any_s8_mve_params pillion_depthwise_3x3_wide_s8_s16_mve_params;
void pillion_depthwise_3x3_wide_s8_s16_mve(const pillion_depthwise_3x3_wide_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                                           void *scratch);

/* Fully connected. Reads up to 15 bytes beyond x. */
typedef struct {
    int32_t rows, in_features, out_features;
    int32_t chunks;                     /* in_features in pieces of 16, rounded up */
    int32_t out_zp, low, high;
    const int32_t *constants;           /* of eight outputs, even ones first: bias, int8 weights[chunks][8][16],
                                           multipliers, int8 shifts; at the end filled up with zeros */
} pillion_linear_s8_mve_params;
void pillion_linear_s8_mve(const pillion_linear_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Fully connected and the convolutions above, with weights of four bits, [chunks][4][16] (kernels/mve/dot.h). */
typedef pillion_linear_s8_mve_params pillion_linear_s4_mve_params;
void pillion_linear_s4_mve(const pillion_linear_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_k16_s4_mve_params;
void pillion_conv2d_1x1_k16_s4_mve(const pillion_conv2d_1x1_k16_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_s4_mve(const pillion_conv2d_1x1_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_k32_s4_mve_params, pillion_conv2d_1x1_k48_s4_mve_params,
    pillion_conv2d_1x1_k64_s4_mve_params; /* 17 to 32, 33 to 48, 49 to 64 inputs */
void pillion_conv2d_1x1_k32_s4_mve(const pillion_conv2d_1x1_k32_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_k48_s4_mve(const pillion_conv2d_1x1_k48_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_k64_s4_mve(const pillion_conv2d_1x1_k64_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_im2col_s4_mve(const pillion_conv2d_im2col_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_k16_s4_mve_params, pillion_conv2d_im2col_k32_s4_mve_params,
    pillion_conv2d_im2col_k48_s4_mve_params, pillion_conv2d_im2col_k64_s4_mve_params;
void pillion_conv2d_im2col_k16_s4_mve(const pillion_conv2d_im2col_k16_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_im2col_k32_s4_mve(const pillion_conv2d_im2col_k32_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_im2col_k48_s4_mve(const pillion_conv2d_im2col_k48_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_im2col_k64_s4_mve(const pillion_conv2d_im2col_k64_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Fully connected, of 16-bit inputs and results without zero points, in pieces of 8. */
typedef struct {
    int32_t rows, in_features, out_features, chunks, low, high;
    const int32_t *constants; /* of eight outputs, even ones first: bias, int8 weights[chunks][8][8], factors */
} pillion_linear_s16_mve_params;
void pillion_linear_s16_mve(const pillion_linear_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
/* Fully connected, of 16-bit inputs and results, by products of bytes. Constants of four outputs: numbers from which sums begin, int8 weights[chunks][4][16], factors
 * (kernels/mve/linear_split_s16_mve.c). Scratch: a vector in pieces of 16. May read 30 bytes beyond x. */
typedef pillion_linear_s16_mve_params pillion_linear_split_s16_mve_params;
void pillion_linear_split_s16_mve(const pillion_linear_split_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_linear_s16_mve_params pillion_linear_s8_s16_mve_params; /* of 8-bit inputs in pieces of 16 */
void pillion_linear_s8_s16_mve(const pillion_linear_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);
typedef pillion_linear_s16_mve_params pillion_linear_s16_s4_mve_params; /* weights of four bits: [chunks][4][8] (kernels/mve/dot.h) */
void pillion_linear_s16_s4_mve(const pillion_linear_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Layers with weights of four bits of which some are -8: fully connected ones as above, with 16 * B + A + 8 in a byte, convolutions with two
 * vectors of the weights of bytes in one (kernels/mve/unpack.h). Scratch: the constants of some channels as bytes, behind windows that are gathered. */
typedef pillion_linear_s8_mve_params pillion_linear_full_s4_mve_params;
void pillion_linear_full_s4_mve(const pillion_linear_full_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_linear_s16_mve_params pillion_linear_full_s16_s4_mve_params;
void pillion_linear_full_s16_s4_mve(const pillion_linear_full_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_conv2d_1x1_s8_mve_params pillion_conv2d_1x1_unpacked_s4_mve_params, pillion_conv2d_1x1_unpacked_s16_s4_mve_params,
    pillion_conv2d_1x1_k32_unpacked_s4_mve_params, pillion_conv2d_1x1_k48_unpacked_s4_mve_params, pillion_conv2d_1x1_k64_unpacked_s4_mve_params,
    pillion_conv2d_1x1_few_unpacked_s16_s4_mve_params, pillion_conv2d_1x1_left_s4_mve_params; /* the last for sums that are shifted left */
void pillion_conv2d_1x1_left_s4_mve(const pillion_conv2d_1x1_left_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_k32_unpacked_s4_mve(const pillion_conv2d_1x1_k32_unpacked_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_k48_unpacked_s4_mve(const pillion_conv2d_1x1_k48_unpacked_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_k64_unpacked_s4_mve(const pillion_conv2d_1x1_k64_unpacked_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_unpacked_s4_mve(const pillion_conv2d_1x1_unpacked_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_1x1_unpacked_s16_s4_mve(const pillion_conv2d_1x1_unpacked_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_conv2d_1x1_few_unpacked_s16_s4_mve(const pillion_conv2d_1x1_few_unpacked_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_conv2d_im2col_s8_mve_params pillion_conv2d_im2col_unpacked_s4_mve_params, pillion_conv2d_im2col_unpacked_s16_s4_mve_params,
    pillion_conv2d_im2col_left_s4_mve_params;
void pillion_conv2d_im2col_left_s4_mve(const pillion_conv2d_im2col_left_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_im2col_unpacked_s4_mve(const pillion_conv2d_im2col_unpacked_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_im2col_unpacked_s16_s4_mve(const pillion_conv2d_im2col_unpacked_s16_s4_mve_params *p, const int16_t *x, int16_t *y,
                                           void *scratch);

/* Fully connected layers whose sums are rounded once, as LiteRT's are. */
typedef struct {
    int32_t rows, in_features, out_features, chunks, low, high;
    const int32_t *constants; /* as of linear_s8 */
    const int32_t *once;      /* [out_features] of multiplier, offset in two words, right shift (pillion/once.h) */
} pillion_linear_tflite_s8_mve_params;
void pillion_linear_tflite_s8_mve(const pillion_linear_tflite_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_linear_tflite_s8_mve_params pillion_linear_tflite_s4_mve_params, pillion_linear_tflite_full_s4_mve_params; /* constants as of linear_s4 */
void pillion_linear_tflite_full_s4_mve(const pillion_linear_tflite_full_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_linear_tflite_s4_mve(const pillion_linear_tflite_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* float32 to int8: nearest of x * reciprocal, ties to even; y may be x. */
typedef pillion_quantize_s8_params pillion_quantize_s8_mve_params;
void pillion_quantize_s8_mve(const pillion_quantize_s8_mve_params *p, const float *x, int8_t *y, void *scratch);

/* int8 to float32: (x - in_zp) * scale. */
typedef pillion_dequantize_s8_params pillion_dequantize_s8_mve_params;
void pillion_dequantize_s8_mve(const pillion_dequantize_s8_mve_params *p, const int8_t *x, float *y, void *scratch);
typedef pillion_dequantize_s16_params pillion_dequantize_s16_mve_params;
void pillion_dequantize_s16_mve(const pillion_dequantize_s16_mve_params *p, const int16_t *x, float *y, void *scratch);

/* y = table[x], the entries in the order 0 ... 127, -128 ... -1. y may be x. */
typedef pillion_lut_s8_params pillion_lut_s8_mve_params;
void pillion_lut_s8_mve(const pillion_lut_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* y = clamp(x, low, high). y may be x. */
typedef pillion_clamp_s8_params pillion_clamp_s8_mve_params;
void pillion_clamp_s8_mve(const pillion_clamp_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_clamp_s8_params pillion_clamp_s16_mve_params;
void pillion_clamp_s16_mve(const pillion_clamp_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* 16-bit pools. May read 14 bytes beyond x. */
typedef pillion_pool_s16_params pillion_max_pool2d_s16_mve_params, pillion_avg_pool2d_s16_mve_params;
void pillion_max_pool2d_s16_mve(const pillion_max_pool2d_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_avg_pool2d_s16_mve(const pillion_avg_pool2d_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Numbers to 16 bits, as pillion_quantize_s16. y may be x. */
typedef pillion_quantize_s8_params pillion_quantize_s16_mve_params;
void pillion_quantize_s16_mve(const pillion_quantize_s16_mve_params *p, const float *x, int16_t *y, void *scratch);

/* y = clamp((a * a_factor + b * b_factor + constant) >> 21), by rows of `count` elements. y may be a or b. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_factor, b_factor, constant; /* the latter less the rounding of the kernel's two shifts */
    int32_t low, high;
} pillion_add_s8_mve_params;
void pillion_add_s8_mve(const pillion_add_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* Sums as they are defined, for scales without such factors. No shift is to the left. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_multiplier, a_shift, b_multiplier, b_shift, out_multiplier, out_shift;
    int32_t a_offset, b_offset;    /* -zero point * 2^20 */
    int32_t a_fix, b_fix, out_fix; /* 1 where there is a right shift, else 0 */
    int32_t out_zp, b_sign;
    int32_t low, high;
} pillion_add_rescaled_s8_mve_params;
void pillion_add_rescaled_s8_mve(const pillion_add_rescaled_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                                 void *scratch);

/* y = clamp(requantize((a - a_zp) * (b - b_zp)) + out_zp), by rows of `count` elements. y may be a or b. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_zp, b_zp, multiplier, shift, out_zp;
    int32_t fix; /* 1 where there is a right shift, else 0 */
    int32_t low, high;
} pillion_mul_s8_mve_params;
void pillion_mul_s8_mve(const pillion_mul_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* Quotients: y = clamp(((a - a_zp) * factors[b] + 2^22 >> 23) + out_zp), by rows of `count` elements with a divisor for each, or one for all
 * (b_step 0). y may be an operand of its shape. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step, b_step;
    const int32_t *factors; /* [256], of b from 0 to 127, then from -128 on */
    int32_t a_zp, out_zp, low, high;
} pillion_div_s8_mve_params;
void pillion_div_s8_mve(const pillion_div_s8_mve_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* Transposed convolution: of every stride_h rows of outputs the same one, in a call for each. A row is a row of a
 * convolution, the outputs between two columns of inputs being channels of one pixel. Scratch as for that. */
typedef struct {
    PILLION_IM2COL_FIELDS
    int32_t rows, y_offset, y_row, y_image; /* in numbers: the first row in y, and from row to row of the call */
    int32_t kept, room; /* of a row that is longer than those of y: the numbers that are copied from scratch[room] on; 0 of others */
} pillion_transpose_conv2d_s8_mve_params;
void pillion_transpose_conv2d_s8_mve(const pillion_transpose_conv2d_s8_mve_params *p, const int8_t *x, int8_t *y,
                                     void *scratch);
typedef pillion_transpose_conv2d_s8_mve_params pillion_transpose_conv2d_s16_mve_params;
void pillion_transpose_conv2d_s16_mve(const pillion_transpose_conv2d_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Extremes: y[outer][inner] are the largest, or the smallest, of x[outer][reduced][inner]. Between the tiles of
 * one op, the scratch memory holds the results so far. Reads up to 15 bytes beyond x; the scratch memory holds a multiple of 16
 * results. */
typedef struct {
    int32_t outer, reduced, inner, is_first, is_last;
} pillion_reduce_max_s8_mve_params;
void pillion_reduce_max_s8_mve(const pillion_reduce_max_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_reduce_max_s8_mve_params pillion_reduce_min_s8_mve_params;
void pillion_reduce_min_s8_mve(const pillion_reduce_min_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Sums and means: y[outer][inner] = requantize(the sum of x[outer][reduced][inner] - in_zp) + out_zp. Reads up to 7 bytes
 * beyond x. */
typedef struct {
    int32_t outer, reduced, inner, in_zp;
    int32_t multiplier, shift; /* to the right */
    int32_t fix;               /* 1 where there is a right shift, else 0 */
    int32_t out_zp;
} pillion_reduce_sum_s8_mve_params;
void pillion_reduce_sum_s8_mve(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Means of 16 bits over such axes. May read 14 bytes beyond x. */
typedef pillion_reduce_sum_s8_mve_params pillion_mean_s16_mve_params;
void pillion_mean_s16_mve(const pillion_mean_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Means of x[][inner] that comes a few rows at a time, as pillion_mean_rows_s8; the scratch memory holds a multiple of 16 sums. */
typedef struct {
    int32_t reduced, inner, is_first, is_last, offset;
    int32_t multiplier, shift, fix, out_zp;
} pillion_mean_rows_s8_mve_params;
void pillion_mean_rows_s8_mve(const pillion_mean_rows_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The mean of x[window][inner] that moves from run to run, as pillion_window_mean_s8; there is a multiple of 16 sums, less the zero points
 * of the window: of each 8 neighbours the even ones, then the odd ones. */
typedef struct {
    int32_t inner, entering, window;
    int32_t multiplier, shift, fix, out_zp;
} pillion_window_mean_s8_mve_params;
void pillion_window_mean_s8_mve(const pillion_window_mean_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The average pool of a window that moves, as pillion_window_pool_s8; `window` is at most 4096. The sums lie as above, with their zero points. */
typedef pillion_window_pool_s8_params pillion_window_pool_s8_mve_params;
void pillion_window_pool_s8_mve(const pillion_window_pool_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Products of matrices. Each batch has `held` vectors of one operand, which are kept in scratch, and `moving` ones of the
 * other, of `depth` elements each; y has a result for every two. */
typedef struct {
    int32_t batch, held, moving, depth;
    int32_t held_step, held_element_step, moving_step, moving_element_step; /* from vector to vector, and within them */
    int32_t y_held_step, y_moving_step;
    int32_t held_zp, moving_zp;
    int32_t multiplier, shift; /* to the right */
    int32_t out_zp, low, high;
} pillion_batch_matmul_s8_mve_params;
void pillion_batch_matmul_s8_mve(const pillion_batch_matmul_s8_mve_params *p, const int8_t *held, const int8_t *moving,
                                 int8_t *y, void *scratch);

/* Products of matrices of 16 bits, as pillion_batch_matmul_s16, of held vectors with moving ones, whose elements lie together. May
 * read 14 bytes beyond the moving vectors. Scratch: two held vectors in eights. */
typedef pillion_held_matmul_s16_params pillion_batch_matmul_s16_mve_params;
void pillion_batch_matmul_s16_mve(const pillion_batch_matmul_s16_mve_params *p, const int16_t *held, const int16_t *moving, int16_t *y,
                                  void *scratch);

/* y = x where it is not negative, slope * x elsewhere: rows of `count` elements with a slope for each. Pairs are of what is
 * not negative and of the rest. y may be x. */
typedef struct {
    int32_t rows, count;
    int32_t multiplier, slope_multiplier;
    int32_t right, slope_right; /* 0 or less */
    int32_t left, slope_left;   /* 0 or more */
    int32_t fix, slope_fix;     /* 1 where there is a right shift, else 0 */
    int32_t in_zp, slope_zp, out_zp;
} pillion_prelu_s8_mve_params;
void pillion_prelu_s8_mve(const pillion_prelu_s8_mve_params *p, const int8_t *x, const int8_t *slope, int8_t *y,
                          void *scratch);

/* Pooling. Windows see the image; reads up to 15 bytes beyond x. */
typedef pillion_pool_s8_params pillion_max_pool2d_s8_mve_params;
void pillion_max_pool2d_s8_mve(const pillion_max_pool2d_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* For rows of at most 256 pixels of a window, and at most 4096 in all. */
typedef pillion_pool_s8_params pillion_avg_pool2d_s8_mve_params;
void pillion_avg_pool2d_s8_mve(const pillion_avg_pool2d_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
/* The mean, half up. */
typedef pillion_pool_s8_params pillion_avg_pool2d_up_s8_mve_params;
void pillion_avg_pool2d_up_s8_mve(const pillion_avg_pool2d_up_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

typedef pillion_resize_bilinear_s8_params pillion_resize_bilinear_s8_mve_params;
void pillion_resize_bilinear_s8_mve(const pillion_resize_bilinear_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_resize_bilinear_rows_s8_params pillion_resize_bilinear_rows_s8_mve_params;
void pillion_resize_bilinear_rows_s8_mve(const pillion_resize_bilinear_rows_s8_mve_params *p, const int8_t *x, uint32_t first, int8_t *y,
                                         void *scratch);
typedef pillion_resize_bilinear_float_s8_params pillion_resize_bilinear_float_s8_mve_params;
void pillion_resize_bilinear_float_s8_mve(const pillion_resize_bilinear_float_s8_mve_params *p, const int8_t *x, int8_t *y,
                                          void *scratch);
typedef pillion_resize_bilinear_float_s8_params pillion_resize_bilinear_float_rows_s8_mve_params;
void pillion_resize_bilinear_float_rows_s8_mve(const pillion_resize_bilinear_float_rows_s8_mve_params *p, const int8_t *x, uint32_t first,
                                               int8_t *y, void *scratch);

/* Softmax of rows of `count` elements. Scratch: 4 bytes for each element of a row, rounded up to 16. Reads up to 3 bytes
 * beyond x. y may be x. */
typedef struct {
    int32_t rows, count, places, factor;
    int32_t multiplier, shift; /* from steps of the input to Q5.26 */
} pillion_softmax_s8_mve_params;
void pillion_softmax_s8_mve(const pillion_softmax_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Softmax of 16 bits, as pillion_softmax_s16. y may be x. */
typedef pillion_softmax_s16_params pillion_softmax_s16_mve_params;
void pillion_softmax_s16_mve(const pillion_softmax_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Norms, as pillion_normalize_s8. With several groups there are at most 2^16 positions, and scratch has eight bytes for each channel. */
typedef pillion_normalize_s8_params pillion_normalize_s8_mve_params;
void pillion_normalize_s8_mve(const pillion_normalize_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);
/* Of elements of 16 bits, with one group. */
typedef pillion_normalize_s8_params pillion_normalize_s16_mve_params;
void pillion_normalize_s16_mve(const pillion_normalize_s16_mve_params *p, const int16_t *x, int8_t *y, void *scratch);
/* Of results of 16 bits, too. */
typedef pillion_normalize_s8_params pillion_normalize_s16_s16_mve_params;
void pillion_normalize_s16_s16_mve(const pillion_normalize_s16_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Filters in second-order sections, as pillion_biquads_s16. */
typedef pillion_biquads_s16_params pillion_biquads_s16_mve_params;
void pillion_biquads_s16_mve(const pillion_biquads_s16_mve_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch);

/* A statistic of each window, as pillion_window_statistic_s16. */
typedef pillion_window_statistic_s16_params pillion_window_statistic_s16_mve_params;
void pillion_window_statistic_s16_mve(const pillion_window_statistic_s16_mve_params *p, const int16_t *x, int16_t *y,
                                      void *scratch);

/* Log-mel spectra, as pillion_log_mel; twiddles are words of 2^15 times as much: of the first stage [points / 4 / 4][3][2][4], of the others
 * [points / 4][3][2]. */
typedef pillion_log_mel_params pillion_log_mel_mve_params;
void pillion_log_mel_mve(const pillion_log_mel_mve_params *p, const int16_t *x, void *y, void *scratch);
/* Spectra of frames, as pillion_stft, with the same twiddles. */
typedef pillion_stft_params pillion_stft_mve_params;
void pillion_stft_mve(const pillion_stft_mve_params *p, const int16_t *x, void *y, void *scratch);

/* Conversions between 8 and 16 bits: twice the number, without the zero point and shifted to the left, times the multiplier over 2^32,
 * rounded half up. */
typedef struct {
    int32_t count, multiplier, out_zp;
} pillion_requantize_s16_s8_mve_params;
void pillion_requantize_s16_s8_mve(const pillion_requantize_s16_s8_mve_params *p, const int16_t *x, int8_t *y, void *scratch);
/* Conversions from 16 to 8 bits by a shift to the right. */
typedef struct {
    int32_t count, factor, out_zp; /* 2^(15 - shift) */
} pillion_requantize_shift_s16_s8_mve_params;
void pillion_requantize_shift_s16_s8_mve(const pillion_requantize_shift_s16_s8_mve_params *p, const int16_t *x, int8_t *y,
                                         void *scratch);
typedef struct {
    int32_t count, in_zp, left, multiplier;
} pillion_requantize_s8_s16_mve_params;
void pillion_requantize_s8_s16_mve(const pillion_requantize_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch);

/* Sums in 16 bits, as pillion_wide_add; rows as in add_s8. a is the wider operand. Both multipliers and the offset are in halves, the
 * lower ones signed; a sum has at most 48 bits. y may be an operand of the same element type. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_bytes, b_bytes, y_bytes;
    int32_t a_low, a_high, b_low, b_high, offset_low, offset_high;
    int32_t shift; /* 16 less than the places */
    int32_t low, high;
} pillion_wide_add_mve_params;
void pillion_wide_add_mve(const pillion_wide_add_mve_params *p, const void *a, const void *b, void *y, void *scratch);
/* Sums of 16-bit tensors in the same steps: a + b, or a - b where the sign is -1. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t sign, low, high;
} pillion_add_unscaled_s16_mve_params;
void pillion_add_unscaled_s16_mve(const pillion_add_unscaled_s16_mve_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                                  void *scratch);

/* Products in 16 bits, as pillion_wide_mul; rows as in wide_add. a is the wider operand. y may be an operand of the same element type. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_bytes, b_bytes, y_bytes;
    int32_t a_zp, b_zp, multiplier, left, out_zp, low, high;
} pillion_wide_mul_mve_params;
void pillion_wide_mul_mve(const pillion_wide_mul_mve_params *p, const void *a, const void *b, void *y, void *scratch);

/* Products of 16-bit tensors with zero point 0, where multiplier << left fits 32 bits. */
typedef pillion_wide_mul_mve_params pillion_mul_s16_mve_params;
void pillion_mul_s16_mve(const pillion_mul_s16_mve_params *p, const void *a, const void *b, void *y, void *scratch);

/* A function of 16-bit numbers by a table, as pillion_octave_lut_s16. y may be x. */
typedef pillion_octave_lut_s16_params pillion_octave_lut_s16_mve_params;
void pillion_octave_lut_s16_mve(const pillion_octave_lut_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* A function of one number of 16 bits, as pillion_wide_lut; neighbouring entries differ by at most 32767. y may be x. */
typedef pillion_wide_lut_params pillion_wide_lut_mve_params;
void pillion_wide_lut_mve(const pillion_wide_lut_mve_params *p, const int16_t *x, int16_t *y, void *scratch);

/* The halves of a step of an LSTM, as pillion_lstm_cell_s16 and pillion_lstm_output_s8. The last shift is not to the left. Scratch:
 * the sums of all gates in 16 bits, in whole groups. May read 15 bytes beyond x and h. */
#define PILLION_MVE_GATES_FIELDS                                                                                  \
    int32_t batch, inputs, outputs, cells;                                                                        \
    int32_t groups;                   /* of eight cells */                                                        \
    int32_t chunks, recurrent_chunks; /* of 16 inputs, of 16 outputs */                                           \
    const int32_t *constants, *recurrent_constants; /* [gates][groups] of bias, int8 weights[chunks][8][16], of even cells first */ \
    const int32_t *scalings; /* [2][gates] of four numbers, see kernels/mve/gates.h: of inputs, then of outputs */
typedef struct {
    PILLION_MVE_GATES_FIELDS
    int32_t places, low, high;
} pillion_lstm_cell_s16_mve_params;
void pillion_lstm_cell_s16_mve(const pillion_lstm_cell_s16_mve_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                               int16_t *y, void *scratch);
typedef struct {
    PILLION_MVE_GATES_FIELDS
    int32_t integer_bits;
    int32_t out_multiplier, out_shift, out_fix, out_zp;
} pillion_lstm_output_s8_mve_params;
void pillion_lstm_output_s8_mve(const pillion_lstm_output_s8_mve_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                                int8_t *y, void *scratch);

/* Memory of filters, as pillion_svdf_memory_s16. Scratch: 2 bytes for each filter, in whole groups. May read
 * 15 bytes beyond x. */
typedef struct {
    int32_t batch, inputs, filters, length;
    int32_t groups, chunks;
    const int32_t *constants, *scalings; /* as above, of one gate */
} pillion_svdf_memory_s16_mve_params;
void pillion_svdf_memory_s16_mve(const pillion_svdf_memory_s16_mve_params *p, const int8_t *x, const int16_t *memory,
                                 int16_t *y, void *scratch);

/* Copies along strides, as pillion_strided_copy. */
typedef pillion_strided_copy_params pillion_strided_copy_mve_params;
void pillion_strided_copy_mve(const pillion_strided_copy_mve_params *p, const void *x, void *y, void *scratch);

/* Places, as pillion_arg_max_s8. Where inner is 1, eight rows have at most 2^16 bytes. */
typedef pillion_arg_max_s8_params pillion_arg_max_s8_mve_params;
void pillion_arg_max_s8_mve(const pillion_arg_max_s8_mve_params *p, const int8_t *x, int32_t *y, void *scratch);
typedef pillion_arg_min_s8_params pillion_arg_min_s8_mve_params;
void pillion_arg_min_s8_mve(const pillion_arg_min_s8_mve_params *p, const int8_t *x, int32_t *y, void *scratch);

#endif

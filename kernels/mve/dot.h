/* SPDX-License-Identifier: Apache-2.0
 * The dot-product engine that the Helium convolutions and the fully connected kernel share. */
#ifndef PILLION_MVE_DOT_H
#define PILLION_MVE_DOT_H

#include <stdint.h>

/* y[pixel][c] = saturate(requantize(bias[c] + sum_k x[pixel][k] * w[c][k]) + out_zp), the input offset being in the bias.
 * Constants, for each group of eight channels (the last group starts at out_c - 8 and may repeat channels; below eight
 * channels the group is filled with zeros), "even" being channels 0 2 4 6 of the group and "odd" 1 3 5 7:
 *     int32 multiplier even[4], odd[4]
 *     int32 bias even[4];  int8 weights[chunks][even 4][16]
 *     int32 bias odd[4];   int8 weights[chunks][odd 4][16]
 *     int8 shift even[4], odd[4]           all from -31 to -1
 */
typedef struct {
    int32_t rows, row_bytes;     /* rows of pixels; from one to the next in x. In y all pixels follow each other */
    int32_t pixels, pixel_bytes; /* of a row, at least one; from one to the next in x */
    int32_t out_c, chunks;
    int32_t out_zp;
    const int32_t *constants;
} pillion_mve_dot;
void pillion_mve_dot8(const pillion_mve_dot *d, const int8_t *x, int8_t *y);

/* The same for at most 16 inputs, at least four pixels, out_c a multiple of 4, y aligned to 4; `chunks` is not used.
 * Constants, for each group of four channels, in the order 0 2 1 3:
 *     int32 bias, multiplier, shift;  int8 weights[16]
 */
void pillion_mve_dot16(const pillion_mve_dot *d, const int8_t *x, int8_t *y);

#endif

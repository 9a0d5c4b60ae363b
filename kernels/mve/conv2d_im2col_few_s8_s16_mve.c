/* SPDX-License-Identifier: Apache-2.0 */
#include "im2col.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_conv2d_im2col_k32_s8_s16_mve(const pillion_conv2d_im2col_k32_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                       void *scratch) {
    pillion_mve_im2col_16(p, x, y, scratch, pillion_mve_dot_s8_s16, pillion_mve_dot_s8_s16_2);
}

void pillion_conv2d_im2col_k48_s8_s16_mve(const pillion_conv2d_im2col_k48_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                       void *scratch) {
    pillion_mve_im2col_16(p, x, y, scratch, pillion_mve_dot_s8_s16, pillion_mve_dot_s8_s16_3);
}

void pillion_conv2d_im2col_k64_s8_s16_mve(const pillion_conv2d_im2col_k64_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                       void *scratch) {
    pillion_mve_im2col_16(p, x, y, scratch, pillion_mve_dot_s8_s16, pillion_mve_dot_s8_s16_4);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The mean of each window, half up: counted from the least number, means are not negative. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#define FROM 128
#define BACK "mov %[rows], #128\n" "vsub.i16 q4, q4, %[rows]\n" "vsub.i16 q6, q6, %[rows]\n"
#include "average.h"

void pillion_avg_pool2d_up_s8_mve(const pillion_avg_pool2d_up_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_pool(p, x, y, window);
}

#endif

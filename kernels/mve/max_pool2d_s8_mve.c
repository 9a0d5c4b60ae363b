/* SPDX-License-Identifier: Apache-2.0
 * The largest value of each window; see pool.h. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pool.h"

static void window(const pillion_mve_window *w, const int8_t *x, int8_t *y) {
    int32_t rows = w->rows;
    __asm__ volatile(
        "vldrb.u8 q0, [%0]\n"
        "1: dls lr, %3\n"
        "2: vldrb.u8 q1, [%0]\n"
        "add %0, %4\n"
        "vmax.s8 q0, q0, q1\n"
        "le lr, 2b\n"
        "add %0, %5\n"
        "subs %1, #1\n"
        "bne 1b\n"
        "vctp.8 %6\n"
        "vpst\n"
        "vstrbt.8 q0, [%2]\n"
        : "+&r"(x), "+&r"(rows)
        : "r"(y), "r"(w->columns), "r"(w->pixel_bytes), "r"(w->row_skip), "r"(w->left)
        : "lr", "q0", "q1", "cc", "memory");
}

void pillion_max_pool2d_s8_mve(const pillion_max_pool2d_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_pool(p, x, y, window);
}

#endif

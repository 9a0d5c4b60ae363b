/* SPDX-License-Identifier: Apache-2.0
 * Average pools over a window that moves, as pillion_window_pool_s8. Sums are multiplied by the reciprocal of the window in float32, a little
 * larger, and rounded to nearest, ties away from zero: see average.h. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "row_sums.h"

#define FACTOR 1.0000002384185791015625f /* 1 + 2^-22 */

#define MEAN(q)                                       \
    "vcvt.f32.s32 " q ", " q "\n"                     \
    "vmul.f32 " q ", " q ", %[reciprocal]\n"          \
    "vcvta.s32.f32 " q ", " q "\n"

/* The means of sixteen sums; the first `count` are written. */
static inline void write_means(const pillion_window_pool_s8_mve_params *p, const int32_t *sums, uint32_t reciprocal, int32_t count,
                               int8_t *y) {
    __asm__ volatile(
        "vldrw.s32 q4, [%[sums]]\n"
        "vldrw.s32 q5, [%[sums], #16]\n"
        "vldrw.s32 q6, [%[sums], #32]\n"
        "vldrw.s32 q7, [%[sums], #48]\n"
        "vdup.16 q0, %[low]\n"
        "vdup.16 q1, %[high]\n" MEAN("q4") MEAN("q5") MEAN("q6") MEAN("q7")
        "vqmovnb.s32 q4, q4\n"
        "vqmovnt.s32 q4, q5\n"
        "vqmovnb.s32 q6, q6\n"
        "vqmovnt.s32 q6, q7\n"
        "vmax.s16 q4, q4, q0\n"
        "vmin.s16 q4, q4, q1\n"
        "vmax.s16 q6, q6, q0\n"
        "vmin.s16 q6, q6, q1\n"
        "vctp.16 %[count]\n"
        "vpst\n"
        "vstrbt.16 q4, [%[y]]\n"
        "subs %[count], #8\n"
        "usat %[count], #4, %[count]\n"
        "vctp.16 %[count]\n"
        "vpst\n"
        "vstrbt.16 q6, [%[y], #8]\n"
        : [count] "+&r"(count)
        : [sums] "r"(sums), [reciprocal] "r"(reciprocal), [low] "r"(p->low), [high] "r"(p->high), [y] "l"(y)
        : "q0", "q1", "q4", "q5", "q6", "q7", "cc", "memory");
}

void pillion_window_pool_s8_mve(const pillion_window_pool_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const union {
        float number;
        uint32_t bits;
    } reciprocal = {FACTOR / (float)p->window};
    int32_t *sums = scratch;
    const int32_t inner = p->inner, rows = p->entering;
    const int8_t *const newest = x + (p->window - rows) * inner;
    for (int32_t i = 0; i < inner; i += LANES, sums += LANES) {
        add_rows(newest + i, rows, inner, 1, sums);
        write_means(p, sums, reciprocal.bits, inner - i, y + i);
        add_rows(x + i, rows, inner, -1, sums);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Means of what comes a few rows at a time, sixteen of them in turn: 256 elements fit 16 bits; their sums are added to those in the scratch
 * memory, which hold the even ones of eight neighbours, then the odd ones. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"
#include "sums.h"

PILLION_AT(pillion_mean_rows_s8_mve_params, shift, offsetof(pillion_mean_rows_s8_mve_params, multiplier) + 4);
PILLION_AT(pillion_mean_rows_s8_mve_params, fix, offsetof(pillion_mean_rows_s8_mve_params, multiplier) + 8);
PILLION_AT(pillion_mean_rows_s8_mve_params, out_zp, offsetof(pillion_mean_rows_s8_mve_params, multiplier) + 12);

enum { MOST_ROWS = 256, LANES = 16 };

/* Adds the rows of sixteen neighbours. */
static void add(const pillion_mean_rows_s8_mve_params *p, const int8_t *x, int32_t *sums) {
    int32_t left = p->reduced, rows = MOST_ROWS;
    __asm__ volatile(
        "vldrw.s32 q4, [%[sums]]\n"
        "vldrw.s32 q5, [%[sums], #16]\n"
        "vldrw.s32 q6, [%[sums], #32]\n"
        "vldrw.s32 q7, [%[sums], #48]\n"
        "1:\n"
        "cmp %[rows], %[left]\n"
        "it gt\n"
        "movgt %[rows], %[left]\n"
        "subs %[left], %[left], %[rows]\n"
        "vmov.i32 q0, #0\n"
        "vmov.i32 q1, #0\n"
        "dls lr, %[rows]\n"
        "2:\n"
        "vldrb.s16 q2, [%[x]]\n"
        "vldrb.s16 q3, [%[x], #8]\n"
        "add %[x], %[x], %[inner]\n"
        "vadd.i16 q0, q0, q2\n"
        "vadd.i16 q1, q1, q3\n"
        "le lr, 2b\n" ADD_HALVES("q0", "q4", "q5") ADD_HALVES("q1", "q6", "q7")
        "cmp %[left], #0\n"
        "bne 1b\n"
        "vstrw.32 q4, [%[sums]]\n"
        "vstrw.32 q5, [%[sums], #16]\n"
        "vstrw.32 q6, [%[sums], #32]\n"
        "vstrw.32 q7, [%[sums], #48]\n"
        : [x] "+l"(x), [left] "+r"(left), [rows] "+r"(rows)
        : [inner] "r"(p->inner), [sums] "r"(sums)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

void pillion_mean_rows_s8_mve(const pillion_mean_rows_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *sums = scratch;
    for (int32_t i = 0; i < p->inner; i += LANES, sums += LANES) {
        for (int32_t lane = 0; p->is_first && lane < LANES; lane++) {
            sums[lane] = -p->offset;
        }
        add(p, x + i, sums);
        for (int32_t half = 0; p->is_last && half < LANES && i + half < p->inner; half += LANES / 2) {
            finish(&p->multiplier, sums + half, p->inner - i - half, y + i + half);
        }
    }
}

#endif

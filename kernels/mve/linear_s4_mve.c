/* SPDX-License-Identifier: Apache-2.0
 * Fully connected with weights of four bits: a byte is 16 * B + A (dot.h). 17 instructions for 16 inputs of eight outputs, as of bytes. */
#include "linear.h"

#if defined(__ARM_FEATURE_MVE)
#include "nibbles.h"

#define PIECE EIGHT_OUTPUTS("vldrw.u32", "#16", "s8", "vrshr")

static __attribute__((noinline)) void groups(pillion_mve_linear *s, int8_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE, s, y, constants, SEPARATE_PAIRS PILLION_MVE_LINEAR_MOVE PILLION_MVE_LINEAR_REQUANTIZE);
}

static __attribute__((noinline)) void sums_of_groups(pillion_mve_linear *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE, s, y, constants, SEPARATE_PAIRS PILLION_MVE_LINEAR_STORE_SUMS);
}

void pillion_linear_tflite_s4_mve(const pillion_linear_tflite_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_linear_once(p, x, y, scratch, 18 + 16 * p->chunks, sums_of_groups);
}

void pillion_linear_s4_mve(const pillion_linear_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_linear_rows(p, x, y, 18 + 16 * p->chunks, groups);
}

#endif

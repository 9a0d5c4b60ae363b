/* SPDX-License-Identifier: Apache-2.0
 * The loops of the dot products of few bytes with 16-bit results. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define GROUP_Y_BYTES "16"
#include "dot_asm.h"
#include "round16.h"
#define PRODUCTS MULTIPLY
#define NUMBERS LOAD_FACTORS
#define RESULTS ROUND_AND_STORE
#include "dot_few.h"

void pillion_mve_dot_s8_s16_2(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_2(s);
}

void pillion_mve_dot_s8_s16_3(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_3(s);
}

void pillion_mve_dot_s8_s16_4(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_4(s);
}

#endif

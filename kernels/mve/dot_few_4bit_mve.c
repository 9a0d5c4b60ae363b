/* SPDX-License-Identifier: Apache-2.0
 * The loops of the dot products of few bytes with weights of four bits. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "nibbles.h"
#define SEPARATE_SUMS SEPARATE_PAIRS
#include "dot_asm.h"
#define PRODUCTS MULTIPLY_NIBBLES
#define NUMBERS LOAD_GROUP
#define RESULTS(y) REQUANTIZE STORE(y)
#include "dot_few.h"

void pillion_mve_dot_4bit_2(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_2(s);
}

void pillion_mve_dot_4bit_3(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_3(s);
}

void pillion_mve_dot_4bit_4(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_4(s);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The loops of the dot products of few bytes. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_asm.h"
#define PRODUCTS MULTIPLY
#define NUMBERS LOAD_GROUP
#define RESULTS(y) REQUANTIZE STORE(y)
#include "dot_few.h"

void pillion_mve_dot_2(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_2(s);
}

void pillion_mve_dot_3(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_3(s);
}

void pillion_mve_dot_4(pillion_mve_pairs *s) {
    keep(s);
    pairs_of_4(s);
}

#endif

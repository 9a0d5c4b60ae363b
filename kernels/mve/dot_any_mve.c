/* SPDX-License-Identifier: Apache-2.0
 * The loop of the dot products for any number of inputs; see dot_asm.h. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_asm.h"

DOT_LOOP(LOAD_GROUP, PIECE, REQUANTIZE_AND_STORE)

void pillion_mve_dot_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

#endif

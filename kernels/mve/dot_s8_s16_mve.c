/* SPDX-License-Identifier: Apache-2.0
 * Dot products of bytes with 16-bit results; see dot.h. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define EIGHT 16
#define GROUP_WORDS(chunks) (16 + 32 * (chunks))
#define HEAD_WORDS 8
#define GROUP_Y_BYTES "16"
#include "dot_columns.h"
#include "round16.h"

DOT_LOOP(LOAD_FACTORS, PIECE, LOAD_STATE ROUND_AND_STORE("r0"))

void pillion_mve_dot_s8_s16_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot_s8_s16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif

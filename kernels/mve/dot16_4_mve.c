/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 16-bit inputs with weights of four bits; see dot.h. A piece of 8 inputs is 4 loads, which widen
 * weights, 2 shifts and 8 multiplies. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define EIGHT 16
#define GROUP_WORDS(chunks) (16 + 8 * (chunks))
#define HEAD_WORDS 8
#define GROUP_Y_BYTES "16"
#include "nibbles.h"
#define SEPARATE_SUMS SEPARATE_PAIRS
#include "dot_columns.h"
#include "round16.h"

#define PIECE_OF_NIBBLES               \
    "vldrb.u8 q0, [r1], #16\n"         \
    "vldrb.u8 q1, [r3], #16\n"         \
    MULTIPLY_NIBBLES_BY("vldrb.s16", "#8", "s16", "q0", "q1")

DOT_LOOP(LOAD_FACTORS, PIECE_OF_NIBBLES, LOAD_STATE ROUND_AND_STORE("r0"))

void pillion_mve_dot16_4_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot16_4(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif

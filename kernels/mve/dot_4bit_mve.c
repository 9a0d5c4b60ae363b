/* SPDX-License-Identifier: Apache-2.0
 * Dot products of bytes with weights of four bits; see dot.h. A piece of 16 inputs is 4 loads, 2 shifts and 8 multiplies. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define EIGHT 8
#define GROUP_WORDS(chunks) (18 + 16 * (chunks))
#define HEAD_WORDS 10
#include "nibbles.h"
#define SEPARATE_SUMS SEPARATE_PAIRS
#include "dot_columns.h"

#define PIECE_OF_NIBBLES               \
    "vldrb.u8 q0, [r1], #16\n"         \
    "vldrb.u8 q1, [r3], #16\n"         \
    MULTIPLY_NIBBLES("q0", "q1")

DOT_LOOP(LOAD_GROUP, PIECE_OF_NIBBLES, REQUANTIZE_AND_STORE)

void pillion_mve_dot_4bit_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot_4bit(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif

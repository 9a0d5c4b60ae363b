/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 16-bit inputs with bytes; see dot.h. A piece of 8 inputs is 6 loads, which widen weights, and 8 multiplies. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define EIGHT 16
#define GROUP_WORDS(chunks) (16 + 16 * (chunks))
#define HEAD_WORDS 8
#define GROUP_Y_BYTES "16"
#include "dot_columns.h"
#include "round16.h"

DOT_LOOP(LOAD_FACTORS, PIECE_OF("vldrb.s16", "#8", "vmladava.s16"), LOAD_STATE ROUND_AND_STORE("r0"))

void pillion_mve_dot16_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

void pillion_mve_dot16_groups(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t count) {
    groups(d, x, y, 0, count);
}

#endif

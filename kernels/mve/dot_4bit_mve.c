/* SPDX-License-Identifier: Apache-2.0
 * Dot products of bytes with weights of four bits; see dot.h. A piece of 16 inputs is 4 loads, 2 shifts and 8 multiplies. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
typedef int8_t pillion_mve_result;
#define GROUP_WORDS(chunks) (18 + 16 * (chunks))
#define HEAD_WORDS 10
#define SEPARATE_SUMS                  \
    "sub r0, r0, r2, asr #4\n"         \
    "sub r4, r4, r6, asr #4\n"         \
    "sub r8, r8, r10, asr #4\n"        \
    "sub r12, r12, lr, asr #4\n"
#include "dot_columns.h"

/* Weights of two channels: sums B of both pixels, sums A. */
#define TWO(b0, b1, a0, a1)            \
    "vldrw.u32 q2, [r5], #16\n"        \
    "vmladava.s8 " b0 ", q0, q2\n"     \
    "vshl.i8 q3, q2, #4\n"             \
    "vmladava.s8 " b1 ", q1, q2\n"     \
    "vmladava.s8 " a0 ", q0, q3\n"     \
    "vmladava.s8 " a1 ", q1, q3\n"
#define PIECE_OF_NIBBLES               \
    "vldrb.u8 q0, [r1], #16\n"         \
    "vldrb.u8 q1, [r3], #16\n"         \
    TWO("r0", "r8", "r2", "r10") TWO("r4", "r12", "r6", "lr")
#define DIVIDE(q) "vshr.s32 " q ", " q ", #4\n"

DOT_LOOP(LOAD_GROUP, PIECE_OF_NIBBLES, LOAD_STATE DIVIDE("q4") DIVIDE("q5") DIVIDE("q0") DIVIDE("q1") REQUANTIZE STORE("r0"))

void pillion_mve_dot_4bit_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot_4bit(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif

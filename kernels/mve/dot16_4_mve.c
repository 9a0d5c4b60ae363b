/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 16-bit inputs with weights of four bits; see dot.h. A piece of 8 inputs is 3 loads, 3 shifts and 8 multiplies.
 * Registers: as in dot_asm.h; q2 weights of four channels, q3 those of three, two, one. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
typedef int16_t pillion_mve_result;
#define GROUP_WORDS(chunks) (16 + 8 * (chunks))
#define HEAD_WORDS 8
#define GROUP_Y_BYTES "16"
#include "nibbles.h"
#define SEPARATE_SUMS SEPARATE_FOURS
#include "dot_columns.h"
#include "round16.h"

#define BOTH(first, second, q) "vmladava.s16 " first ", q0, " q "\n" "vmladava.s16 " second ", q1, " q "\n"
#define PIECE_OF_NIBBLES               \
    "vldrb.u8 q0, [r1], #16\n"         \
    "vldrb.u8 q1, [r3], #16\n"         \
    "vldrw.u32 q2, [r5], #16\n"        \
    BOTH("r0", "r8", "q2")             \
    "vrshr.s16 q3, q2, #4\n"           \
    BOTH("r2", "r10", "q3")            \
    "vrshr.s16 q3, q2, #8\n"           \
    BOTH("r4", "r12", "q3")            \
    "vrshr.s16 q3, q2, #12\n"          \
    BOTH("r6", "lr", "q3")

DOT_LOOP(LOAD_FACTORS, PIECE_OF_NIBBLES, LOAD_STATE ROUND_AND_STORE)

void pillion_mve_dot16_4_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot16_4(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    pillion_mve_dot_task channels = *d;
    channels.out_c = d->out_c / 2;
    products(&channels, x, (int16_t *)(void *)y);
}

#endif

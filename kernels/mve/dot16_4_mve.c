/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 16-bit inputs with weights of four bits; see dot.h. A piece of 8 inputs is 3 loads, 4 widenings, a shift and 8 multiplies.
 * Registers: as in dot_asm.h; q2 weights of four channels, q3 those of two, widened. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
typedef int16_t pillion_mve_result;
#define GROUP_WORDS(chunks) (16 + 8 * (chunks))
#define HEAD_WORDS 8
#define GROUP_Y_BYTES "16"
#define PIECE_BYTES 64
#define SEPARATE_SUMS                  \
    "sub r0, r0, r2, asr #4\n"         \
    "sub r4, r4, r6, asr #4\n"         \
    "sub r8, r8, r10, asr #4\n"        \
    "sub r12, r12, lr, asr #4\n"
#include "dot_columns.h"
#include "round16.h"

/* Two channels of each pixel: the first ones are in the lower bytes. */
#define TWO(first, first_1, second, second_1)        \
    "vmovlb.s8 q3, q2\n"                             \
    "vmladava.s16 " first ", q0, q3\n"               \
    "vmladava.s16 " first_1 ", q1, q3\n"             \
    "vmovlt.s8 q3, q2\n"                             \
    "vmladava.s16 " second ", q0, q3\n"              \
    "vmladava.s16 " second_1 ", q1, q3\n"
#define PIECE_OF_NIBBLES               \
    "vldrb.u8 q0, [r1], #16\n"         \
    "vldrb.u8 q1, [r3], #16\n"         \
    "vldrw.u32 q2, [r5], #16\n"        \
    TWO("r0", "r8", "r4", "r12")       \
    "vshl.i8 q2, q2, #4\n"             \
    TWO("r2", "r10", "r6", "lr")
#define DIVIDE(q) "vshr.s32 " q ", " q ", #4\n"

DOT_LOOP(LOAD_FACTORS, PIECE_OF_NIBBLES, LOAD_STATE DIVIDE("q4") DIVIDE("q5") DIVIDE("q0") DIVIDE("q1") ROUND_AND_STORE)

void pillion_mve_dot16_4_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot16_4(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    pillion_mve_dot_task channels = *d;
    channels.out_c = d->out_c / 2;
    products(&channels, x, (int16_t *)(void *)y);
}

#endif

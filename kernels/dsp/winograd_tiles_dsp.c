/* SPDX-License-Identifier: Apache-2.0
 * What Winograd's convolution makes of inputs: two channels in the halves of a word, added and subtracted there. Per dimension, d0..d3
 * become d0 - d2, d1 + d2, d2 - d1, d3 - d1. A tile is gone through column by column; what becomes of a column is written row
 * by row, 1 2 0 3, and the columns 0 2 1 3. */
#include "winograd.h"

#if PILLION_HAS_DSP

/* r0 x, r1 from row to row, r2 three times that, r3 to, r12 from place to place, lr from pixel to pixel; r4-r7 and r8-r11 are
 * four rows of a column. On the stack: rounds left, two for four bytes; the second one begins at the second byte. */
#define COLUMN_OF_INPUTS(a, b, c, d)          \
    "ldr " a ", [r0]\n"                       \
    "ldr " b ", [r0, r1]\n"                   \
    "ldr " c ", [r0, r1, lsl #1]\n"           \
    "ldr " d ", [r0, r2]\n"                   \
    "sxtb16 " a ", " a "\n"                   \
    "sxtb16 " b ", " b "\n"                   \
    "sxtb16 " c ", " c "\n"                   \
    "sxtb16 " d ", " d "\n"                   \
    "ssub16 " a ", " a ", " c "\n"            \
    "ssub16 " d ", " d ", " b "\n"            \
    "ssub16 " c ", " c ", " b "\n"            \
    "sadd16 " b ", " b ", " b "\n"            \
    "sadd16 " b ", " b ", " c "\n"
#define A_LESS_B                              \
    "ssub16 r4, r4, r8\n"                     \
    "ssub16 r5, r5, r9\n"                     \
    "ssub16 r6, r6, r10\n"                    \
    "ssub16 r7, r7, r11\n"
#define B_LESS_A                              \
    "ssub16 r8, r8, r4\n"                     \
    "ssub16 r9, r9, r5\n"                     \
    "ssub16 r10, r10, r6\n"                   \
    "ssub16 r11, r11, r7\n"
#define B_AND_A                               \
    "sadd16 r8, r8, r4\n"                     \
    "sadd16 r9, r9, r5\n"                     \
    "sadd16 r10, r10, r6\n"                   \
    "sadd16 r11, r11, r7\n"
#define WRITE_INPUTS(a, b, c, d)              \
    "str " b ", [r3]\n"                       \
    "str " c ", [r3, r12]\n"                  \
    "str " a ", [r3, r12, lsl #1]\n"          \
    "add r3, r3, r12, lsl #1\n"               \
    "str " d ", [r3, r12]\n"                  \
    "add r3, r3, r12, lsl #1\n"
#define WRITE_A WRITE_INPUTS("r4", "r5", "r6", "r7")
#define WRITE_B WRITE_INPUTS("r8", "r9", "r10", "r11")
#define COLUMN_A COLUMN_OF_INPUTS("r4", "r5", "r6", "r7")
#define COLUMN_B COLUMN_OF_INPUTS("r8", "r9", "r10", "r11")
#define TILE                                  \
    COLUMN_A                           \
    "add r0, r0, lr, lsl #1\n"                \
    COLUMN_B A_LESS_B WRITE_A          \
    "sub r0, r0, lr\n"                        \
    COLUMN_A B_LESS_A WRITE_B          \
    B_AND_A B_AND_A WRITE_B                   \
    "add r0, r0, lr, lsl #1\n"                \
    COLUMN_B B_LESS_A WRITE_B          \
    "sub r3, r3, r12, lsl #4\n"               \
    "add r3, r3, #12\n"                       \
    "sub r0, r0, lr, lsl #1\n"                \
    "sub r0, r0, lr\n"
PILLION_NAKED void pillion_dsp_winograd_inputs(PILLION_UNUSED const int8_t *x, PILLION_UNUSED int32_t row, PILLION_UNUSED int32_t column,
                                               PILLION_UNUSED int32_t *to, PILLION_UNUSED int32_t place, PILLION_UNUSED int32_t fours) {
    __asm volatile("push {r4-r11, lr}\n"
                   "ldrd r12, r4, [sp, #36]\n"
                   "lsl r4, r4, #1\n"
                   "push {r4}\n"
                   "mov lr, r2\n"
                   "add r2, r1, r1, lsl #1\n"
                   "1:\n" TILE
                   "ldr r4, [sp]\n"
                   "tst r4, #1\n" /* bytes 1 and 3 follow 0 and 2 */
                   "ite eq\n"
                   "addeq r0, r0, #1\n"
                   "addne r0, r0, #3\n"
                   "subs r4, r4, #1\n"
                   "str r4, [sp]\n"
                   "bne.w 1b\n"
                   "add sp, sp, #4\n"
                   "pop {r4-r11, pc}\n");
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * What Winograd's convolution multiplies: inputs and weights of two channels in the halves of a word, added and subtracted
 * there. Per dimension, inputs d0..d3 become d0 - d2, d1 + d2, d2 - d1, d3 - d1; weights g0..g2 become g0, g0 + g1 + g2,
 * g0 - g1 + g2, g2, and from row to row twice the first and the last of these.
 * Both go through a tile column by column; what becomes of a column is written row by row, 1 2 0 3, and the columns
 * 0 2 1 3. */
#include "winograd.h"

#if PILLION_HAS_DSP

/* r0 x, r1 from row to row, r2 three times that, r3 to, r12 from place to place, lr from pixel to pixel; r4-r7 and r8-r11 are
 * four rows of a column. On the stack: fours left. */
#define COLUMN_OF_INPUTS(a, b, c, d, widen)   \
    "ldr " a ", [r0]\n"                       \
    "ldr " b ", [r0, r1]\n"                   \
    "ldr " c ", [r0, r1, lsl #1]\n"           \
    "ldr " d ", [r0, r2]\n"                   \
    "sxtb16 " a ", " a widen "\n"             \
    "sxtb16 " b ", " b widen "\n"             \
    "sxtb16 " c ", " c widen "\n"             \
    "sxtb16 " d ", " d widen "\n"             \
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
#define COLUMN_A(widen) COLUMN_OF_INPUTS("r4", "r5", "r6", "r7", widen)
#define COLUMN_B(widen) COLUMN_OF_INPUTS("r8", "r9", "r10", "r11", widen)
#define TILE(widen)                           \
    COLUMN_A(widen)                           \
    "add r0, r0, lr, lsl #1\n"                \
    COLUMN_B(widen) A_LESS_B WRITE_A          \
    "sub r0, r0, lr\n"                        \
    COLUMN_A(widen) B_LESS_A WRITE_B          \
    B_AND_A B_AND_A WRITE_B                   \
    "add r0, r0, lr, lsl #1\n"                \
    COLUMN_B(widen) B_LESS_A WRITE_B          \
    "sub r3, r3, r12, lsl #4\n"               \
    "add r3, r3, #12\n"                       \
    "sub r0, r0, lr, lsl #1\n"                \
    "sub r0, r0, lr\n"
PILLION_NAKED void pillion_dsp_winograd_inputs(PILLION_UNUSED const int8_t *x, PILLION_UNUSED int32_t row, PILLION_UNUSED int32_t column,
                                               PILLION_UNUSED int32_t *to, PILLION_UNUSED int32_t place, PILLION_UNUSED int32_t fours) {
    __asm volatile("push {r4-r11, lr}\n"
                   "ldrd r12, r4, [sp, #36]\n"
                   "push {r4}\n"
                   "mov lr, r2\n"
                   "add r2, r1, r1, lsl #1\n"
                   "1:\n" TILE("") TILE(", ror #8")
                   "add r0, r0, #4\n"
                   "ldr r4, [sp]\n"
                   "subs r4, r4, #1\n"
                   "str r4, [sp]\n"
                   "bne.w 1b\n"
                   "add sp, sp, #4\n"
                   "pop {r4-r11, pc}\n");
}

/* r0 w, r1 fours left, r2 to, r3 from place to place, r12 three times that; r4-r7 and r8-r11 are what becomes of a column: places of
 * rows 0, 2, 3 and 1. lr is free. */
#define COLUMN_OF_WEIGHTS(a, b, c, sum, top, middle, bottom, widen) \
    "ldr " a ", [r0, #" top "]\n"             \
    "ldr " b ", [r0, #" middle "]\n"          \
    "ldr " c ", [r0, #" bottom "]\n"          \
    "sxtb16 " a ", " a widen "\n"             \
    "sxtb16 " b ", " b widen "\n"             \
    "sxtb16 " c ", " c widen "\n"             \
    "sadd16 lr, " a ", " c "\n"               \
    "sadd16 " sum ", lr, " b "\n"             \
    "ssub16 " b ", lr, " b "\n"               \
    "sadd16 " a ", " a ", " a "\n"            \
    "sadd16 " c ", " c ", " c "\n"
#define WRITE_WEIGHTS(a, b, c, sum)           \
    "str " sum ", [r2]\n"                     \
    "str " b ", [r2, r3]\n"                   \
    "str " a ", [r2, r3, lsl #1]\n"           \
    "str " c ", [r2, r12]\n"
#define SUM_TO_A                              \
    "sadd16 r4, r4, r8\n"                     \
    "sadd16 r5, r5, r9\n"                     \
    "sadd16 r6, r6, r10\n"                    \
    "sadd16 r7, r7, r11\n"
/* A - B, one by one, because both are still wanted. */
#define WRITE_DIFFERENCE                      \
    "ssub16 lr, r7, r11\n"                    \
    "str lr, [r2]\n"                          \
    "ssub16 lr, r5, r9\n"                     \
    "str lr, [r2, r3]\n"                      \
    "ssub16 lr, r4, r8\n"                     \
    "str lr, [r2, r3, lsl #1]\n"              \
    "ssub16 lr, r6, r10\n"                    \
    "str lr, [r2, r12]\n"
#define WINDOW(widen)                         \
    COLUMN_OF_WEIGHTS("r4", "r5", "r6", "r7", "0", "12", "24", widen) \
    WRITE_WEIGHTS("r4", "r5", "r6", "r7")     \
    "add r2, r2, r12, lsl #2\n"               \
    COLUMN_OF_WEIGHTS("r8", "r9", "r10", "r11", "8", "20", "32", widen) \
    WRITE_WEIGHTS("r8", "r9", "r10", "r11")   \
    "sub r2, r2, r3, lsl #3\n" SUM_TO_A       \
    COLUMN_OF_WEIGHTS("r8", "r9", "r10", "r11", "4", "16", "28", widen) \
    WRITE_DIFFERENCE                          \
    "add r2, r2, r3, lsl #2\n" SUM_TO_A       \
    WRITE_WEIGHTS("r4", "r5", "r6", "r7")     \
    "sub r2, r2, r3, lsl #3\n"
PILLION_NAKED void pillion_dsp_winograd_weights(PILLION_UNUSED const int8_t *w, PILLION_UNUSED int32_t fours, PILLION_UNUSED int32_t *to,
                                                PILLION_UNUSED int32_t place) {
    __asm volatile("push {r4-r11, lr}\n"
                   "add r12, r3, r3, lsl #1\n"
                   "lsl r1, r1, #1\n"
                   "1:\n" WINDOW("")
                   "add r2, r2, #8\n" WINDOW(", ror #8")
                   "add r0, r0, #36\n" /* the other channel, or the next four inputs of the first */
                   "tst r1, #1\n"
                   "ite eq\n"
                   "subeq r2, r2, #4\n"
                   "addne r2, r2, #4\n"
                   "subs r1, r1, #1\n"
                   "bne.w 1b\n"
                   "pop {r4-r11, pc}\n");
}
#endif

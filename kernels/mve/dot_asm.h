/* SPDX-License-Identifier: Apache-2.0
 * What the loops of dot_mve.c and conv2d_3x3_s8_mve.c share: two pixels by eight channels.
 *
 * VMLADAVA adds 16 products to one even core register: eight of them hold 2 pixels x 4 channels (r0 r2 r4 r6: first
 * pixel, r8 r10 r12 lr: second), the odd ones are pointers (r1 and r3: pixels, r5: constants) and counters. The sums of
 * the even, then of the odd channels of the group are made, so that narrowing 32 -> 16 bits into bottom and top halves
 * puts the channels into order. Then 16 outputs are requantized: VQRDMULH rounds half up; VQDMLAH by 1 (r12) takes one
 * off negative values, so that the rounding shift rounds half away from zero. All that outlives a pair of pixels is in
 * the struct below (r11), because no register is left. q6 and q7 hold the multipliers of the group. */
#ifndef PILLION_MVE_DOT_ASM_H
#define PILLION_MVE_DOT_ASM_H

#include <stdint.h>

/* Words 0 to 10 are loaded by LOAD_STATE; the others are named by their offsets. */
typedef struct {
    int8_t *y;                             /* r0 */
    const int8_t *x0, *x1;                 /* r1, r3 */
    int32_t out_zp;                        /* r4 */
    const int32_t *constants;              /* r5: of the group, behind its multipliers */
    const int8_t *row_end;                 /* r6: y behind the row */
    int32_t loops, x_step;                 /* r7, r8: per pair */
    int32_t even_entry;                    /* r9 */
    int32_t y_step, one;                   /* r10, r12 */
    int32_t loops_again, odd_entry;        /* 44, 48 */
    int32_t rows_left;                     /* 52 */
    int32_t x_skip, y_skip, y_row;         /* 56 60 64: from the end of a row to the next one, and from end to end */
    int32_t groups_left, group_bytes;      /* 68 72 */
    int32_t rows;                          /* 76 */
    int8_t *first_y;                       /* 80: of the group */
    const int8_t *first_x0, *first_x1;     /* 84 88 */
    const int8_t *first_row_end;           /* 92 */
} pillion_mve_pairs;

#define LOAD_STATE "ldm r11, {r0, r1, r3, r4, r5, r6, r7, r8, r9, r10, r12}\n"

#define LOAD_MULTIPLIERS               \
    "vldrw.u32 q6, [r5, #-32]\n"       \
    "vldrw.u32 q7, [r5, #-16]\n"

#define LOAD_BIAS                      \
    "ldm r5, {r0, r2, r4, r6}\n"       \
    "ldm r5!, {r8, r10, r12, lr}\n"

/* The sums of one half of the channels: first pixel to `a`, second to `b`. */
#define MOVE_SUMS(a, b)                      \
    "vmov " a "[2], " a "[0], r0, r4\n"      \
    "vmov " a "[3], " a "[1], r2, r6\n"      \
    "vmov " b "[2], " b "[0], r8, r12\n"     \
    "vmov " b "[3], " b "[1], r10, lr\n"

/* 16 weights of four channels with q0 of the first and q1 of the second pixel. */
#define MULTIPLY(first, second)              \
    "vldrw.u32 q2, [r5], #16\n"              \
    "vmladava.s8 r0, " first ", q2\n"        \
    "vldrw.u32 q3, [r5], #16\n"              \
    "vmladava.s8 r8, " second ", q2\n"       \
    "vmladava.s8 r2, " first ", q3\n"        \
    "vldrw.u32 q2, [r5], #16\n"              \
    "vmladava.s8 r10, " second ", q3\n"      \
    "vmladava.s8 r4, " first ", q2\n"        \
    "vldrw.u32 q3, [r5], #16\n"              \
    "vmladava.s8 r12, " second ", q2\n"      \
    "vmladava.s8 r6, " first ", q3\n"        \
    "vmladava.s8 lr, " second ", q3\n"

/* Even channels in q4 and q5, odd ones in q0 and q1; their shifts at r5. Leaves the state loaded, y at the next pair. */
#define REQUANTIZE_AND_STORE           \
    "vldrb.s32 q2, [r5]\n"             \
    "vldrb.s32 q3, [r5, #4]\n"         \
    LOAD_STATE                         \
    "vqrdmulh.s32 q4, q4, q6\n"        \
    "vqrdmulh.s32 q5, q5, q6\n"        \
    "vqrdmulh.s32 q0, q0, q7\n"        \
    "vqrdmulh.s32 q1, q1, q7\n"        \
    "vqdmlah.s32 q4, q4, r12\n"        \
    "vqdmlah.s32 q5, q5, r12\n"        \
    "vqdmlah.s32 q0, q0, r12\n"        \
    "vqdmlah.s32 q1, q1, r12\n"        \
    "vrshl.s32 q4, q4, q2\n"           \
    "vrshl.s32 q5, q5, q2\n"           \
    "vrshl.s32 q0, q0, q3\n"           \
    "vrshl.s32 q1, q1, q3\n"           \
    "vqmovnb.s32 q4, q4\n"             \
    "vqmovnb.s32 q5, q5\n"             \
    "vqmovnt.s32 q4, q0\n"             \
    "vqmovnt.s32 q5, q1\n"             \
    "vqadd.s16 q4, q4, r4\n"           \
    "vqadd.s16 q5, q5, r4\n"           \
    "vqmovnb.s16 q4, q4\n"             \
    "vqmovnb.s16 q5, q5\n"             \
    "vstrb.16 q4, [r0]\n"              \
    "add r0, r10\n"                    \
    "vstrb.16 q5, [r0]\n"              \
    "add r0, r10\n"

/* After the last pair of a row: to the next row, or to the first row of the next group of channels, else on.
 * `next_x1` moves r3 by r2. */
#define NEXT_ROW_OR_GROUP(next_x1, pair, group, end) \
    "ldr r2, [r11, #52]\n"             \
    "subs r2, #1\n"                    \
    "beq 8f\n"                         \
    "str r2, [r11, #52]\n"             \
    "ldrd r2, r4, [r11, #56]\n"        \
    "add r1, r2\n" next_x1             \
    "add r0, r4\n"                     \
    "stm r11, {r0, r1, r3}\n"          \
    "ldr r2, [r11, #64]\n"             \
    "add r6, r2\n"                     \
    "str r6, [r11, #20]\n"             \
    "b " pair "\n"                     \
    "8:\n"                             \
    "ldrd r2, r4, [r11, #68]\n"        \
    "subs r2, #1\n"                    \
    "beq " end "\n"                    \
    "str r2, [r11, #68]\n"             \
    "add r5, r4\n"                     \
    "str r5, [r11, #16]\n"             \
    "ldr r2, [r11, #76]\n"             \
    "str r2, [r11, #52]\n"             \
    "add r2, r11, #80\n"               \
    "ldm r2, {r0, r1, r3, r6}\n"       \
    "adds r0, #8\n"                    \
    "adds r6, #8\n"                    \
    "stm r2, {r0, r1, r3, r6}\n"       \
    "stm r11, {r0, r1, r3}\n"          \
    "str r6, [r11, #20]\n"             \
    "b " group "\n"

#define DOT_CLOBBERS                                                                                            \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", \
        "q7", "cc", "memory"

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of 3x3, stride 1 or 2 along rows, over a multiple of 16 channels: 2 pixels x 8 channels at a
 * time; see dot_asm.h. Who includes this defines GROUP_WORDS (the constants of a group, by its planes), HEAD_WORDS (those before its sums),
 * EIGHT (the bytes of its results in a pixel, as `out_c` is in bytes, too), NUMBERS, which loads multipliers, and RESULTS(y), which makes
 * results of sums and stores them.
 *
 * The inputs are planes (planes.h), r3 apart. Two neighbouring pixels share columns: at
 * stride 1 four loads serve the six taps of a kernel row, at stride 2 five. The order of the weights is therefore
 * [row][plane][column], at stride 2 with the columns 0 2 1. The loop goes over planes, three of them in a turn.
 * Registers: as dot_asm.h says, but r3 is the distance and r9 the number of planes. */
#ifndef PILLION_MVE_PAIRS_3X3_H
#define PILLION_MVE_PAIRS_3X3_H

#include "dot_asm.h"
#include "planes.h"

typedef pillion_conv2d_3x3_s8_mve_params params;

#define TAPS_STRIDE_1                \
    "vldrb.u8 q0, [r1]\n"            \
    "vldrb.u8 q1, [r1, #16]\n"       \
    MULTIPLY("q0", "q1")             \
    "vldrb.u8 q0, [r1, #32]\n"       \
    MULTIPLY("q1", "q0")             \
    "vldrb.u8 q1, [r1, #48]\n"       \
    MULTIPLY("q0", "q1")             \
    "add r1, r3\n"

#define TAPS_STRIDE_2                \
    "vldrb.u8 q0, [r1]\n"            \
    "vldrb.u8 q1, [r1, #32]\n"       \
    MULTIPLY("q0", "q1")             \
    "vldrb.u8 q0, [r1, #64]\n"       \
    MULTIPLY("q1", "q0")             \
    "vldrb.u8 q0, [r1, #16]\n"       \
    "vldrb.u8 q1, [r1, #48]\n"       \
    MULTIPLY("q0", "q1")             \
    "add r1, r3\n"

/* All pairs of pixels of some rows, for all groups of channels. */
#define PAIRS(name, taps)                                                       \
    static __attribute__((noinline)) void name(pillion_mve_pairs *s) {          \
        register pillion_mve_pairs *r0 __asm__("r0") = s;                       \
        __asm__ volatile(                                                       \
            "push {r7, r11}\n"                                                  \
            "mov r11, r0\n"                                                     \
            "0:\n" LOAD_STATE NUMBERS                                           \
            "1:\n" LOAD_BIAS                                                    \
            "2:\n" taps taps taps                                               \
            "subs r7, #1\n"                                                     \
            "bne.w 2b\n" MOVE_SUMS("q4", "q5")                                    \
            "mov r7, r9\n" LOAD_PLACES LOAD_BIAS                                \
            "3:\n" taps taps taps                                               \
            "subs r7, #1\n"                                                     \
            "bne.w 3b\n" MOVE_SUMS("q0", "q1") LOAD_STATE RESULTS("r0")           \
            "add r1, r8\n"                                                      \
            STORE_PLACES                                                        \
            "cmp r0, r6\n"                                                      \
            "bne.w 1b\n" NEXT_ROW_OR_GROUP("", "1b", "0b", "9f")                  \
            "9:\n"                                                              \
            "pop {r7, r11}\n"                                                   \
            : "+r"(r0)                                                          \
            :                                                                   \
            : DOT_CLOBBERS);                                                    \
    }

PAIRS(pairs_stride_1, TAPS_STRIDE_1)
PAIRS(pairs_stride_2, TAPS_STRIDE_2)

/* `count` pixels, an even number, of `rows` rows from `column` on, for some groups of channels. */
static void columns(const params *p, const int8_t *planes, int8_t *y, int32_t rows, int32_t groups, const int32_t *constants,
                    int32_t column, int32_t count) {
    pillion_mve_pairs s;
    s.first_x0 = s.x0 = planes + column * p->stride_w * 16;
    s.first_x1 = s.x1 = (const int8_t *)(intptr_t)p->plane_bytes;
    s.signs = p->signs;
    s.first_y = s.y = y + column * p->out_c;
    s.y_step = p->out_c;
    s.first_row_end = s.row_end = s.y + count * p->out_c;
    s.x_step = 32 * p->stride_w;
    s.x_skip = p->stride_h * p->planes * p->plane_bytes - (count >> 1) * s.x_step;
    s.y_row = p->out_w * p->out_c;
    s.y_skip = s.y_row - count * p->out_c;
    s.rows = s.rows_left = rows;
    s.groups_left = groups;
    s.group_bytes = GROUP_WORDS(p->planes) * 4;
    s.constants = constants + HEAD_WORDS;
    s.out_zp = p->out_zp;
    s.one = 1;
    s.loops = s.even_entry = p->planes; /* the latter for the second half */
    if (p->stride_w == 1) {
        pairs_stride_1(&s);
    } else {
        pairs_stride_2(&s);
    }
}

/* All pixels of some rows, for some groups of channels. */
static __attribute__((noinline)) void eights(const params *p, const int8_t *planes, int8_t *y, int32_t rows, int32_t groups, const int32_t *constants) {
    columns(p, planes, y, rows, groups, constants, 0, p->out_w & ~1);
    if (p->out_w & 1) { /* the last two again */
        columns(p, planes, y, rows, groups, constants, p->out_w - 2, 2);
    }
}

static void output_rows(const params *p, int8_t *planes, int8_t *y, int32_t rows) {
    const int32_t whole = (int32_t)((uint32_t)p->out_c / EIGHT);
    eights(p, planes, y, rows, whole, p->constants);
    if ((uint32_t)p->out_c % EIGHT) { /* the last eight channels, some of them again */
        eights(p, planes, y + p->out_c - EIGHT, rows, 1, p->constants + whole * GROUP_WORDS(p->planes));
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Copies a channel into a plane of 16-bit numbers: four pixels of a row to a step and four steps to a round, which the first round
 * enters where it must.
 *
 * Who includes this defines `element`, COPY_LOAD, which loads one, and COPY_BITS, its size.
 * Registers: r0 plane, r1 x, r2 from pixel to pixel, r3 rounds, r4 rows, r5 and r6 from row to row of x and of the plane, r8
 * three pixels, r9-r12 four numbers, lr rounds left. On the stack: where a row, its fours and its rest begin. */
#ifndef PILLION_DSP_CHANNEL_COPY_H
#define PILLION_DSP_CHANNEL_COPY_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

#define FOURS_OF_ROUND 4 /* in copy_channel */
#define FOUR_BYTES 32    /* of code */

/* How to copy a channel: what the image has of the plane, row by row. */
typedef struct {
    int32_t step; /* bytes from one pixel of a row to the next */
    int32_t rounds, rows;      /* of FOURS_OF_ROUND fours each, the first of which may be short */
    int32_t x_skip, to_skip;   /* from the end of a row to the next */
    uint32_t start, whole, rest; /* where copy_channel begins a row, its fours, and what is left then */
} channel_copy;
PILLION_FIELDS_AT(channel_copy, 0, step, rounds, rows, x_skip, to_skip, start, whole, rest);

#define PLACE_OF(bits, place) pillion_dsp_copy_##bits##_##place
#define PLACE_OF_BITS(bits, place) PLACE_OF(bits, place)
#define PLACE(place) PLACE_OF_BITS(COPY_BITS, place)
#define TEXT(name) #name
#define TEXT_OF(name) TEXT(name)
#define PLACE_HERE(place) ".global " TEXT_OF(PLACE(place)) "\n" TEXT_OF(PLACE(place)) ":\n"
extern const uint8_t PLACE(head)[], PLACE(fours)[], PLACE(pair)[], PLACE(three)[], PLACE(one)[], PLACE(end)[];

/* `rows` of so many columns, for a plane of so many; pixels and rows of x are so many bytes apart. */
static channel_copy copy_of(int32_t rows, int32_t columns, int32_t step, int32_t row_step, int32_t pad_left, int32_t plane_columns) {
    static const uint8_t *const rests[4] = {PLACE(end), PLACE(one), PLACE(pair), PLACE(three)};
    const int32_t head = pad_left % 2 != 0 && columns > 0; /* a number before the first whole word */
    const int32_t fours = (columns - head) / 4;
    const uint8_t *const rest = rests[(columns - head) % 4];
    const uint8_t *const whole = fours > 0 ? PLACE(fours) + (-fours & (FOURS_OF_ROUND - 1)) * FOUR_BYTES : rest;
    const channel_copy copy = {step,
                               (fours + FOURS_OF_ROUND - 1) / FOURS_OF_ROUND,
                               columns > 0 ? rows : 0,
                               row_step - columns * step,
                               2 * (plane_columns - columns),
                               pillion_thumb(head ? PLACE(head) : whole),
                               pillion_thumb(whole),
                               pillion_thumb(rest)};
    return copy;
}

#define ONE                                 \
    COPY_LOAD " r9, [r1]\n"                 \
    "strh r9, [r0], #2\n"                   \
    "add r1, r1, r2\n"
#define TWO                                 \
    COPY_LOAD " r9, [r1]\n"                 \
    COPY_LOAD " r10, [r1, r2]\n"            \
    "add r1, r1, r2, lsl #1\n"              \
    "pkhbt r9, r9, r10, lsl #16\n"          \
    "str r9, [r0], #4\n"
/* FOUR_BYTES long. */
#define FOUR                                \
    COPY_LOAD ".w r9, [r1]\n"               \
    COPY_LOAD ".w r10, [r1, r2]\n"          \
    COPY_LOAD ".w r11, [r1, r2, lsl #1]\n"  \
    COPY_LOAD ".w r12, [r1, r8]\n"          \
    "add.w r1, r1, r2, lsl #2\n"            \
    "pkhbt r9, r9, r10, lsl #16\n"          \
    "pkhbt r11, r11, r12, lsl #16\n"        \
    "strd r9, r11, [r0], #8\n"
PILLION_NAKED static void copy_channel(PILLION_UNUSED const channel_copy *copy, PILLION_UNUSED const element *x, PILLION_UNUSED int16_t *to) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r0\n"
                   "mov r0, r2\n"
                   "ldmia r12, {r2-r9}\n"
                   "push {r7-r9}\n"
                   "add r8, r2, r2, lsl #1\n"
                   "1:\n"
                   "mov lr, r3\n"
                   "ldr pc, [sp]\n"
                   PLACE_HERE(head) ONE
                   "ldr pc, [sp, #4]\n"
                   PLACE_HERE(fours)
                   "2:\n"
                   PILLION_REPEAT("2b", FOURS_OF_ROUND, FOUR_BYTES, FOUR)
                   "subs lr, lr, #1\n"
                   "bne.w 2b\n"
                   "ldr pc, [sp, #8]\n"
                   PLACE_HERE(pair) TWO
                   "b 3f\n"
                   PLACE_HERE(three) TWO
                   PLACE_HERE(one) ONE
                   PLACE_HERE(end)
                   "3:\n"
                   "add r1, r1, r5\n"
                   "add r0, r0, r6\n"
                   "subs r4, r4, #1\n"
                   "bgt 1b\n"
                   "add sp, sp, #12\n"
                   "pop {r4-r11, pc}\n");
}
#endif

#endif

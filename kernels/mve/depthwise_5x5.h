/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 5x5, stride 1 or 2, one channel at a time. Who includes this defines RESULTS, which makes results in
 * q6 of what a sum times the multiplier is and stores them, NUMBERS, the registers of a channel's numbers, and Y_BYTES, the size of a result.
 *
 * The padded channel lies in scratch row by row. A gathered vector is 8 columns of two rows; three of them with three
 * vectors of weights are a window, which leaves room for four columns of outputs at stride 1 and for two at stride 2: the
 * weights are loaded from further left by as many bytes. Six gathered vectors are windows at four places, two rows apart:
 * four outputs, which are requantized together and scattered with the offsets in q7. All of a channel is read before its
 * outputs are written. A round of the innermost loop is one column: three loads of weights, twelve
 * VMLADAV, four results.
 * Registers of the outputs: r0 r2 r6 r8 sums, r1 bias, r3 multiplier, r5 shift, r7 what results ask for, r4 and r10 from column
 * to column of the kernel and of y, r9 y, r11 kernel, r12 window, lr columns left in the block, a positive number, as
 * the sign fix wants; q0-q5 gathered vectors, q6 weights, then sums, q7 where four outputs go. Of the plane: r1 x, r3
 * plane, r4 and r5 from row to row of them, r6 and r7 the block of columns. On the stack: offsets of a vector, columns
 * left, block, plane_row, kernel, columns, table, groups left, plane, y. */
#ifndef PILLION_MVE_DEPTHWISE_5X5_H
#define PILLION_MVE_DEPTHWISE_5X5_H

#include "bytes.h"
#include "pillion/assembly.h"

/* The layout of the plane. Steps are in bytes of x and of the plane. */
typedef struct {
    int32_t x_row, plane_row, rows;       /* from row to row; rows of the image that the windows see */
    int32_t blocks;                       /* of 16 columns */
    int32_t second_x, second_plane;       /* from the first block to the second */
    int32_t next_x, next_plane;           /* and from there on */
    int32_t from, lanes;                  /* offset of the image in the plane; predicate of its columns in a block */
    uint16_t even[8], odd[8];             /* offsets of the columns of a block */
    int32_t gather[4];                    /* offsets of the words of a vector */
    int32_t columns, block;               /* of outputs; of those that share vectors */
    int32_t step, y_column;               /* from column to column: in a row of the kernel, and in y */
    uint8_t taps[48];                     /* which of the kernel's bytes become {5 rows of 5 weights and 3 zeros; 8 zeros} */
    int32_t groups;                       /* of rows of outputs; of each {offsets of four rows, last one first; offset of the
                                             first window; offset of the first output} */
} layout_5x5;
PILLION_FIELDS_AT(layout_5x5, 0, x_row, plane_row, rows, blocks, second_x, second_plane, next_x, next_plane, from,
                  lanes, even);
PILLION_AT(layout_5x5, odd, 56);
PILLION_AT(layout_5x5, gather, 72);
PILLION_FIELDS_AT(layout_5x5, 88, columns, block, step, y_column, taps);
PILLION_AT(layout_5x5, groups, 152);
PILLION_BYTES(layout_5x5, 156);

typedef struct {
    const int8_t *x;
    int8_t *plane, *y;
    const int8_t *kernel;
    const int32_t *numbers;               /* of this channel and of the next ones */
    int32_t level;
} channel_5x5;
PILLION_FIELDS_AT(channel_5x5, 0, x, plane, y, kernel, numbers, level);

/* 16 bytes of the expanded kernel, which lies before the plane, behind 16 zeros. */
#define TAPS(from, to)                \
    "vldrw.u32 q1, [r11, #" from "]\n" \
    "vldrb.u8 q0, [r6, q1]\n"          \
    "vstrw.32 q0, [r8, #" to "]\n"
#define GATHER(q)                \
    "vldrw.u32 " q ", [r0, q6]\n" \
    "add r0, r0, r2, lsl #1\n"

/* Fills the plane with a channel, then makes its outputs. */
PILLION_NAKED static void channel(PILLION_UNUSED channel_5x5 *c, PILLION_UNUSED const int32_t *layout) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"
        "mov r11, r1\n"
        "ldm r1, {r4, r5, r10, r12}\n" /* x_row, plane_row, rows, blocks */
        "ldrd r8, r9, [r11, #16]\n"
        "ldrd r1, r2, [r11, #32]\n"
        "vmsr p0, r2\n"
        "ldrd r6, r7, [r0]\n" /* the block: in x and in the plane */
        "adds r7, r1\n"
        "vldrw.u32 q6, [r11, #40]\n"
        "vldrw.u32 q7, [r11, #56]\n"
        "1:\n"
        "mov r1, r6\n"
        "mov r3, r7\n"
        "dls lr, r10\n"
        "2:\n"
        "vldrb.u16 q0, [r1, q6]\n"
        "vldrb.u16 q1, [r1, q7]\n"
        "add r1, r4\n"
        "vmovnt.i16 q0, q1\n"
        "vpst\n"
        "vstrbt.8 q0, [r3]\n"
        "add r3, r5\n"
        "le lr, 2b\n"
        "add r6, r8\n"
        "add r7, r9\n"
        "ldrd r8, r9, [r11, #24]\n"
        "subs r12, #1\n"
        "bne 1b\n"

        "add r12, r0, #16\n"
        "ldrd r8, r9, [r0, #4]\n"
        "ldr r6, [r0, #12]\n"
        "ldrd r1, r7, [r0, #16]\n"
        "ldrd r0, r3, [r11, #88]\n"
        "add r2, r11, #156\n"
        "ldr r4, [r11, #152]\n"
        "vmov.i32 q0, #0\n"
        "vstrw.32 q0, [r8, #-64]\n" TAPS("104", "-48") TAPS("120", "-32") TAPS("136", "-16")
        "sub r6, r8, #48\n"
        "push {r0, r2, r4, r8, r9, r12}\n" /* 32: columns, 36: group, groups left, 44: plane, y, nothing */
        "push {r0, r3, r5, r6}\n"          /* 16: columns left, block, 24: plane_row, kernel */
        "vldrw.u32 q6, [r11, #72]\n"
        "vpush {d12, d13}\n"
        "mov r2, r1\n"
        "ldm r2!, " NUMBERS "\n"
        "str r2, [r12]\n"
        "ldrd r4, r10, [r11, #96]\n"
        "3:\n"
        "ldr r0, [sp, #36]\n"
        "vldrw.u32 q7, [r0], #16\n"
        "ldrd r12, r9, [r0], #8\n"
        "str r0, [sp, #36]\n"
        "ldrd r0, r2, [sp, #44]\n"
        "add r12, r0\n"
        "add r9, r2\n"
        "ldr r0, [sp, #32]\n"
        "ldr r2, [sp, #20]\n"
        "4:\n" /* r0 columns left, r2 block, r12 window */
        "subs r6, r0, r2\n"
        "csel lr, r0, r2, lt\n"
        "str r6, [sp, #16]\n"
        "vldrw.u32 q6, [sp]\n"
        "ldrd r2, r11, [sp, #24]\n"
        "vldrw.u32 q0, [r12, q6]\n"
        "add r0, r12, r2, lsl #1\n" GATHER("q1") GATHER("q2") GATHER("q3") GATHER("q4")
        "vldrw.u32 q5, [r0, q6]\n"
        "add r12, #4\n"
        "dls lr, lr\n"
        "5:\n"
        "vldrb.u8 q6, [r11]\n"
        "vmladav.s8 r0, q0, q6\n"
        "vmladav.s8 r2, q1, q6\n"
        "vmladav.s8 r6, q2, q6\n"
        "vmladav.s8 r8, q3, q6\n"
        "vldrb.u8 q6, [r11, #16]\n"
        "vmladava.s8 r0, q1, q6\n"
        "vmladava.s8 r2, q2, q6\n"
        "vmladava.s8 r6, q3, q6\n"
        "vmladava.s8 r8, q4, q6\n"
        "vldrb.u8 q6, [r11, #32]\n"
        "vmladava.s8 r0, q2, q6\n"
        "vmladava.s8 r2, q3, q6\n"
        "vmladava.s8 r6, q4, q6\n"
        "vmladava.s8 r8, q5, q6\n"
        "sub r11, r4\n"
        "vmov q6[2], q6[0], r8, r2\n"
        "vmov q6[3], q6[1], r6, r0\n"
        "vadd.i32 q6, q6, r1\n"
        "vqrdmulh.s32 q6, q6, r3\n"
        RESULTS
        "add r9, r10\n"
        "le lr, 5b\n"
        "ldrd r0, r2, [sp, #16]\n"
        "cmp r0, #0\n"
        "bgt 4b\n"
        "ldr r0, [sp, #40]\n"
        "subs r0, #1\n"
        "str r0, [sp, #40]\n"
        "bne 3b\n"
        "add sp, #56\n"
        "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}

/* A whole convolution. */
static void depthwise_5x5(const pillion_depthwise_5x5_s8_mve_params *p, const int8_t *x, void *y, int8_t *scratch, int32_t level) {
    int8_t *out = y;
    int8_t *const plane = scratch + 64;
    pillion_mve_fill(plane, p->in_zp, p->plane_bytes);
    for (int32_t n = 0; n < p->images; n++, x += p->image_bytes, out += p->output_bytes) {
        channel_5x5 c = {x, plane, out, p->kernels, p->numbers, level};
        for (int32_t left = p->channels; left > 0; left--, c.x++) {
            for (int32_t filters = p->filters; filters > 0; filters--, c.y += Y_BYTES, c.kernel += 26) {
                channel(&c, p->layout);
            }
        }
    }
}

#endif

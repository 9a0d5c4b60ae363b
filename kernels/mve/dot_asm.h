/* SPDX-License-Identifier: Apache-2.0
 * Two pixels by eight channels at a time: code that the loops of dot_*_mve.c and conv2d_3x3_s8_mve.c share.
 *
 * A round takes 16 inputs of both pixels with the weights of four channels: 6 loads and 8 VMLADAVA. The even channels
 * of the group are summed first, then the odd ones; then 16 results are requantized together.
 * Registers of the sums: r0 r2 r4 r6 of the first pixel, r8 r10 r12 lr of the second, r1 and r3 the pixels, r5
 * constants, r7 rounds left, r9 where the first round begins, r11 the state (pillion_mve_pairs), which keeps what
 * outlives a pair of pixels; q0 q1 inputs, q2 q3 weights, q4 q5 sums of the even channels, q6 q7 multipliers. Of the
 * results: r0 y, r2 signs, r4 zero point, r6 end of the row, r8 from pair to pair of x, r10 from pixel to pixel of y,
 * r12 1, the number of the sign fix; q2 q3 factors. */
#ifndef PILLION_MVE_DOT_ASM_H
#define PILLION_MVE_DOT_ASM_H

#include "dot.h"
#include "pillion/assembly.h"

PILLION_FIELDS_AT(pillion_mve_pairs, 0, y, x0, signs, x1, out_zp, constants, row_end, loops, x_step, even_entry, y_step,
                  one, loops_again, odd_entry, rows_left, x_skip);
PILLION_FIELDS_AT(pillion_mve_pairs, 64, y_skip, y_row, groups_left, group_bytes, rows, first_y, first_x0, first_x1,
                  first_row_end, factors);
PILLION_AT(pillion_mve_pairs, kept_signs, 132);
PILLION_AT(pillion_mve_pairs, kept_one, 156);

#define LOAD_STATE "ldm r11, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r12}\n"
#define STORE_PLACES "stm r11, {r0, r1, r2, r3}\n"
#define LOAD_PLACES "ldm r11, {r0, r1, r2, r3}\n"

/* Multipliers and factors of a group. */
#define LOAD_GROUP "bl pillion_mve_dot_group\n"

#define LOAD_BIAS                      \
    "ldm r5, {r0, r2, r4, r6}\n"       \
    "ldm r5!, {r8, r10, r12, lr}\n"

/* The sums of one half of the channels: first pixel to `a`, second to `b`. Weights of four bits have something to do before. */
#ifndef SEPARATE_SUMS
#define SEPARATE_SUMS ""
#endif
#define MOVE_SUMS(a, b)                      \
    SEPARATE_SUMS                            \
    "vmov " a "[2], " a "[0], r0, r4\n"      \
    "vmov " a "[3], " a "[1], r2, r6\n"      \
    "vmov " b "[2], " b "[0], r8, r12\n"     \
    "vmov " b "[3], " b "[1], r10, lr\n"

/* 16 weights of four channels, or 8 that are widened, with q0 of the first and q1 of the second pixel. */
#define MULTIPLY_BY(load, step, multiply, first, second) \
    load " q2, [r5], " step "\n"             \
    multiply " r0, " first ", q2\n"          \
    load " q3, [r5], " step "\n"             \
    multiply " r8, " second ", q2\n"         \
    multiply " r2, " first ", q3\n"          \
    load " q2, [r5], " step "\n"             \
    multiply " r10, " second ", q3\n"        \
    multiply " r4, " first ", q2\n"          \
    load " q3, [r5], " step "\n"             \
    multiply " r12, " second ", q2\n"        \
    multiply " r6, " first ", q3\n"          \
    multiply " lr, " second ", q3\n"
#define MULTIPLY(first, second) MULTIPLY_BY("vldrw.u32", "#16", "vmladava.s8", first, second)

/* 16 bytes of inputs of both pixels. */
#define PIECE_OF(load, step, multiply)  \
    "vldrb.u8 q0, [r1], #16\n"         \
    "vldrb.u8 q1, [r3], #16\n"         \
    MULTIPLY_BY(load, step, multiply, "q0", "q1")
#define PIECE PIECE_OF("vldrw.u32", "#16", "vmladava.s8")

/* Sums of even channels in q4 and q5, of odd ones in q0 and q1; results in q4 and q5. VQRDMLASH shifts by a product, and
 * adds the zero point. Code that shifts sums left first may use q2, q3 and lr. */
#ifndef SHIFT_SUMS
#define SHIFT_SUMS ""
#endif
#define REQUANTIZE                     \
    SHIFT_SUMS                         \
    "vldrw.u32 q2, [r11, #100]\n"      \
    "vldrw.u32 q3, [r11, #116]\n"      \
    "vqrdmulh.s32 q4, q4, q6\n"        \
    "vqrdmulh.s32 q5, q5, q6\n"        \
    "vqrdmulh.s32 q0, q0, q7\n"        \
    "vqrdmulh.s32 q1, q1, q7\n"        \
    "cbnz r2, 7f\n"                    \
    "vqdmlah.s32 q4, q4, r12\n"        \
    "vqdmlah.s32 q5, q5, r12\n"        \
    "vqdmlah.s32 q0, q0, r12\n"        \
    "vqdmlah.s32 q1, q1, r12\n"        \
    "7:\n"                             \
    "vqrdmlash.s32 q4, q2, r4\n"       \
    "vqrdmlash.s32 q5, q2, r4\n"       \
    "vqrdmlash.s32 q0, q3, r4\n"       \
    "vqrdmlash.s32 q1, q3, r4\n"       \
    "vqmovnb.s32 q4, q4\n"             \
    "vqmovnb.s32 q5, q5\n"             \
    "vqmovnt.s32 q4, q0\n"             \
    "vqmovnt.s32 q5, q1\n"             \
    "vqmovnb.s16 q4, q4\n"             \
    "vqmovnb.s16 q5, q5\n"
#define STORE(y)                       \
    "vstrb.16 q4, [" y "]\n"           \
    "add " y ", r10\n"                 \
    "vstrb.16 q5, [" y "]\n"           \
    "add " y ", r10\n"

/* Leaves the state loaded, y at the next pair. */
#define REQUANTIZE_AND_STORE LOAD_STATE REQUANTIZE STORE("r0")

/* Results of a group in a pixel of y. */
#ifndef GROUP_Y_BYTES
#define GROUP_Y_BYTES "8"
#endif

/* After the last pair of a row: to the next row, or to the first row of the next group of channels, else on.
 * `next_x1` moves r3 by r2. */
#define NEXT_ROW_OR_GROUP(next_x1, pair, group, end) \
    "ldr r2, [r11, #56]\n"             \
    "subs r2, #1\n"                    \
    "beq 8f\n"                         \
    "str r2, [r11, #56]\n"             \
    "ldrd r2, r4, [r11, #60]\n"        \
    "add r1, r2\n" next_x1             \
    "add r0, r4\n"                     \
    "ldr r2, [r11, #8]\n"              \
    STORE_PLACES                       \
    "ldr r2, [r11, #68]\n"             \
    "add r6, r2\n"                     \
    "str r6, [r11, #24]\n"             \
    "b " pair "\n"                     \
    "8:\n"                             \
    "ldrd r2, r4, [r11, #72]\n"        \
    "subs r2, #1\n"                    \
    "beq " end "\n"                    \
    "str r2, [r11, #72]\n"             \
    "add r5, r4\n"                     \
    "str r5, [r11, #20]\n"             \
    "ldr r2, [r11, #80]\n"             \
    "str r2, [r11, #56]\n"             \
    "add r4, r11, #84\n"               \
    "ldm r4, {r0, r1, r3, r6}\n"       \
    "adds r0, #" GROUP_Y_BYTES "\n"    \
    "adds r6, #" GROUP_Y_BYTES "\n"    \
    "stm r4, {r0, r1, r3, r6}\n"       \
    "ldr r2, [r11, #8]\n"              \
    STORE_PLACES                       \
    "str r6, [r11, #24]\n"             \
    "b " group "\n"

#define DOT_CLOBBERS                                                                                            \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", \
        "q7", "cc", "memory"

/* A loop for any number of pieces, which are 6 loads and 8 multiplies. It is entered in its middle (r9) where their number is
 * no multiple of UNROLL, which are a round. */
#define UNROLL 12
#ifndef PIECE_BYTES
#define PIECE_BYTES 56 /* of code */
#endif
#define DOT_LOOP(load_group, piece, finish)                                                        \
    static __attribute__((noinline)) void pairs(pillion_mve_pairs *s) {                         \
        register pillion_mve_pairs *r0 __asm__("r0") = s;                                       \
        __asm__ volatile(                                                                       \
            "push {r7, r11}\n"                                                                  \
            "mov r11, r0\n"                                                                     \
            "ldr r2, [r11, #52]\n" /* bytes of code to skip */                                  \
            "adr.w r0, 2f\n"                                                                    \
            "add r0, r2\n"                                                                      \
            "adds r0, #1\n"                                                                     \
            "str r0, [r11, #36]\n"                                                              \
            "adr.w r0, 3f\n"                                                                    \
            "add r0, r2\n"                                                                      \
            "adds r0, #1\n"                                                                     \
            "str r0, [r11, #52]\n"                                                              \
            "0:\n" LOAD_STATE load_group                                                        \
            "1:\n" LOAD_BIAS                                                                    \
            "bx r9\n"                                                                           \
            ".p2align 2\n"                                                                      \
            "2:\n" PILLION_REPEAT("2b", UNROLL, PIECE_BYTES, piece)                             \
            "subs r7, #1\n"                                                                     \
            "bne.w 2b\n" MOVE_SUMS("q4", "q5") LOAD_PLACES                                      \
            "ldrd r7, r9, [r11, #48]\n" LOAD_BIAS                                               \
            "bx r9\n"                                                                           \
            ".p2align 2\n"                                                                      \
            "3:\n" PILLION_REPEAT("3b", UNROLL, PIECE_BYTES, piece)                             \
            "subs r7, #1\n"                                                                     \
            "bne.w 3b\n" MOVE_SUMS("q0", "q1") finish                                           \
            "add r1, r8\n"                                                                      \
            "add r3, r8\n" STORE_PLACES                                                         \
            "cmp r0, r6\n"                                                                      \
            "bne.w 1b\n" NEXT_ROW_OR_GROUP("add r3, r2\n", "1b", "0b", "9f")                   \
            "9:\n"                                                                              \
            "pop {r7, r11}\n"                                                                   \
            : "+r"(r0)                                                                          \
            :                                                                                   \
            : DOT_CLOBBERS);                                                                    \
    }                                                                                           \
    static inline void any_chunks(pillion_mve_pairs *s) {                                       \
        const int32_t chunks = s->loops;                                                        \
        s->loops = s->loops_again = (chunks + UNROLL - 1) / UNROLL;                             \
        s->odd_entry = (s->loops * UNROLL - chunks) * PIECE_BYTES;                              \
        pairs(s);                                                                               \
    }

#endif

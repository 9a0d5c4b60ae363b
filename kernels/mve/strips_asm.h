/* SPDX-License-Identifier: Apache-2.0
 * The outputs of a channel from its strips, for the kernels of both strides. A round makes eight outputs: two
 * vectors of sums are requantized together and stored with one scattering store.
 * Registers: r1 strip, r3 bias, r5 multiplier, r7 shift, r8 zero point or least result, r9 y, r10 from round to round of y, r11 the
 * pass, r12 end of the strips, lr rounds left in this strip, a positive number, as the sign fix wants; q0-q3 the
 * kernel, q4 a window, q5 q6 sums, q7 where eight outputs go. On the stack: strips, y, kernel. */
#ifndef PILLION_MVE_STRIPS_ASM_H
#define PILLION_MVE_STRIPS_ASM_H

#include "strips.h"

#define FIX(q) "vqdmlah.s32 " q ", " q ", lr\n"
#define NO_FIX(q) ""

/* From h to the result in 16 bits: by a shift, or where a vector is left for a factor (README.md), by a product. */
#define SHIFTED                                 \
    "vrshl.s32 q5, r7\n"                        \
    "vrshl.s32 q6, r7\n"                        \
    "vqmovnb.s32 q5, q5\n"                      \
    "vqmovnt.s32 q5, q6\n"                      \
    "vqadd.s16 q5, q5, r8\n"
#define MULTIPLIED(factor)                      \
    "vqrdmlash.s32 q5, " factor ", r8\n"        \
    "vqrdmlash.s32 q6, " factor ", r8\n"        \
    "vqmovnb.s32 q5, q5\n"                      \
    "vqmovnt.s32 q5, q6\n"

/* From h to eight results: int8, or int16, which h is but for its bounds. */
#define INT8_RESULTS(fix, shifted)              \
    fix("q5") fix("q6")                         \
    shifted                                     \
    "vqmovnb.s16 q5, q5\n"                      \
    "vstrb.16 q5, [r9, q7]\n"
#define INT16_RESULTS(even, odd, bounded, load_offsets, offsets) \
    "vqmovnb.s32 " even ", " even "\n"          \
    "vqmovnt.s32 " even ", " odd "\n"           \
    bounded(even)                               \
    load_offsets                                \
    "vstrh.16 " even ", [r9, " offsets "]\n"
/* At least r8, by way of q4. */
#define AT_LEAST(q)                             \
    "vdup.16 q4, r8\n"                          \
    "vmax.s16 " q ", " q ", q4\n"

/* Eight outputs from the sums of `windows`, then the next round. */
#define ROUND(windows, even, odd, results)      \
    windows                                     \
    "vadd.i32 " even ", " even ", r3\n"         \
    "vadd.i32 " odd ", " odd ", r3\n"           \
    "vqrdmulh.s32 " even ", " even ", r5\n"     \
    "vqrdmulh.s32 " odd ", " odd ", r5\n"       \
    results                                     \
    "add r9, r10\n"

/* The numbers of a channel: of int8 results bias, multiplier, shift, of int16 ones bias, factor. */
#define INT8_NUMBERS "{r3, r5, r7}"
#define INT16_NUMBERS "{r3, r5}"

/* A function that computes all outputs of a channel, for pillion_mve_strips, which has saved q4 to q7. `load_channel` loads the registers of a
 * channel, with its kernel at r4; `load_pass` those of a pass of kind r0; `begin_row` those of a row. `round` computes eight outputs from the
 * strip at r1, and may use r0, r2, r4 and r6; `load_pass` may jump to `lone_row` instead. */
#define STRIP_OUTPUTS(name, numbers, load_channel, load_pass, begin_row, round, lone_row)    \
    PILLION_NAKED static void name(PILLION_UNUSED pillion_mve_strip_channel *channel,        \
                           PILLION_UNUSED const pillion_mve_strip_pass *passes) {            \
        __asm__ volatile(                                                                    \
            "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"                             \
            "mov r11, r1\n"                                                                  \
            "ldm r0, {r1, r2, r4, r8, r12}\n"                                                \
            "push {r1, r2, r4}\n"                                                            \
            "ldm r12!, " numbers "\n"                                                        \
            "str r12, [r0, #16]\n"                                                           \
            load_channel                                                                     \
            "0:\n"                                                                           \
            "ldrd lr, r10, [r11, #8]\n"                                                      \
            "ldrd r4, r12, [r11, #16]\n"                                                     \
            "ldrd r6, r0, [r11, #24]\n"                                                      \
            "vldrh.u16 q7, [r11, #32]\n"                                                     \
            "ldrd r1, r9, [sp]\n"                                                            \
            "add r12, r1\n"                                                                  \
            "add r1, r4\n"                                                                   \
            "add r9, r6\n"                                                                   \
            load_pass                                                                        \
            "1:\n"                                                                           \
            "dls lr, lr\n"                                                                   \
            begin_row                                                                        \
            "2:\n" round                                                                     \
            "le lr, 2b\n"                                                                    \
            "ldm r11, {r0, r2, lr}\n"                                                        \
            "add r1, r0\n"                                                                   \
            "add r9, r2\n"                                                                   \
            "cmp r1, r12\n"                                                                  \
            "bne 1b\n"                                                                       \
            "3:\n"                                                                           \
            "ldr r0, [r11, #28]\n"                                                           \
            "add r11, #48\n"                                                                 \
            "lsls r0, r0, #31\n"                                                             \
            "beq 0b\n"                                                                       \
            "add sp, #12\n"                                                                  \
            "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n"                              \
            lone_row);                                                                       \
    }

#endif

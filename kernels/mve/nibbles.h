/* SPDX-License-Identifier: Apache-2.0
 * Two channels with weights of four bits that share a byte (dot.h). */
#ifndef PILLION_MVE_NIBBLES_H
#define PILLION_MVE_NIBBLES_H

/* The sum of a channel without 16 times that of the next one, which shares its bytes. */
#define WITHOUT(sum, next) "sub " sum ", " sum ", " next ", lsl #4\n"
#define SEPARATE_PAIRS WITHOUT("r0", "r2") WITHOUT("r4", "r6") WITHOUT("r8", "r10") WITHOUT("r12", "lr")

/* The same of weights of the full range (linear_s4_mve.c), with eight times the sum of the inputs at a place of the state. */
#define SEPARATE_FULL(place)           \
    "ldr r1, [r11, #" place "]\n" SEPARATE_PAIRS \
    "subs r0, r0, r1\n"                \
    "subs r4, r4, r1\n"                \
    "sub r8, r8, r1\n"                 \
    "sub r12, r12, r1\n"

/* 16 weights of two channels, or 8 that are widened, with a piece of both pixels. */
#define PAIR_OF_CHANNELS(load, step, bits, first, second, a0, a1, b0, b1) \
    load " q2, [r5], " step "\n"                         \
    "vmladava." bits " " a0 ", " first ", q2\n"          \
    "vrshr." bits " q3, q2, #4\n"                        \
    "vmladava." bits " " a1 ", " second ", q2\n"         \
    "vmladava." bits " " b0 ", " first ", q3\n"          \
    "vmladava." bits " " b1 ", " second ", q3\n"
#define MULTIPLY_NIBBLES_BY(load, step, bits, first, second)                     \
    PAIR_OF_CHANNELS(load, step, bits, first, second, "r0", "r8", "r2", "r10")   \
    PAIR_OF_CHANNELS(load, step, bits, first, second, "r4", "r12", "r6", "lr")
#define MULTIPLY_NIBBLES(first, second) MULTIPLY_NIBBLES_BY("vldrw.u32", "#16", "s8", first, second)

/* The same with a piece of one vector; `shift` leaves the second channel. */
#define PAIR_OF_OUTPUTS(load, step, bits, shift, a, b)   \
    load " q1, [r5], " step "\n"                         \
    shift "." bits " q3, q1, #4\n"                       \
    "vmladava." bits " " a ", q0, q1\n"                  \
    "vmladava." bits " " b ", q0, q3\n"
#define EIGHT_OUTPUTS(load, step, bits, shift)           \
    "vldrb.u8 q0, [r1], #16\n"                           \
    PAIR_OF_OUTPUTS(load, step, bits, shift, "r0", "r2") PAIR_OF_OUTPUTS(load, step, bits, shift, "r4", "r6") \
    PAIR_OF_OUTPUTS(load, step, bits, shift, "r8", "r10") PAIR_OF_OUTPUTS(load, step, bits, shift, "r12", "lr")

#endif

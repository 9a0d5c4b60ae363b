/* SPDX-License-Identifier: Apache-2.0
 * Channels with weights of four bits that share a byte or a halfword (dot.h). */
#ifndef PILLION_MVE_NIBBLES_H
#define PILLION_MVE_NIBBLES_H

/* The sum of a channel without 16 times that of the next one, of bits that share the number with it. */
#define WITHOUT(sum, next) "sub " sum ", " sum ", " next ", lsl #4\n"
#define SEPARATE_PAIRS WITHOUT("r0", "r2") WITHOUT("r4", "r6") WITHOUT("r8", "r10") WITHOUT("r12", "lr")
#define SEPARATE_FOURS                                                           \
    WITHOUT("r0", "r2") WITHOUT("r2", "r4") WITHOUT("r4", "r6")                  \
    WITHOUT("r8", "r10") WITHOUT("r10", "r12") WITHOUT("r12", "lr")

/* 16 weights of two channels, with a piece of both pixels. */
#define PAIR_OF_CHANNELS(first, second, a0, a1, b0, b1) \
    "vldrw.u32 q2, [r5], #16\n"                 \
    "vmladava.s8 " a0 ", " first ", q2\n"       \
    "vrshr.s8 q3, q2, #4\n"                     \
    "vmladava.s8 " a1 ", " second ", q2\n"      \
    "vmladava.s8 " b0 ", " first ", q3\n"       \
    "vmladava.s8 " b1 ", " second ", q3\n"
#define MULTIPLY_NIBBLES(first, second)         \
    PAIR_OF_CHANNELS(first, second, "r0", "r8", "r2", "r10") PAIR_OF_CHANNELS(first, second, "r4", "r12", "r6", "lr")

#endif

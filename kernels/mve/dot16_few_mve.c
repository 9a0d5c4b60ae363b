/* SPDX-License-Identifier: Apache-2.0
 * The loop of the dot products of at most 64 inputs of 16 bits: pieces of 8 inputs without a loop over them, which is entered in its middle. r1 and
 * r3 stay behind their pixels (dot_few.h). */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#define GROUP_Y_BYTES "16"
#include "dot_asm.h"
#include "round16.h"
#define PIECES 8
#define PIECE_BEFORE(place)            \
    "vldrh.u16 q0, [r1, #-" place "]\n" \
    "vldrh.u16 q1, [r3, #-" place "]\n" \
    MULTIPLY_BY("vldrb.s16", "#8", "vmladava.s16", "q0", "q1")
#define SUMS(entry, label)                                                               \
    "ldr pc, [r11, #" entry "]\n"                                                        \
    ".p2align 2\n" label ":\n"                                                           \
    PIECE_BEFORE("128") PIECE_BEFORE("112") PIECE_BEFORE("96") PIECE_BEFORE("80")        \
    PIECE_BEFORE("64") PIECE_BEFORE("48") PIECE_BEFORE("32") PIECE_BEFORE("16")          \
    PILLION_REPEAT(label "b", PIECES, PIECE_BYTES, "")
/* Where the sums of even channels and of odd ones begin, from the bytes of code to skip. */
#define ENTER(entry, label)   \
    "adr.w r0, " label "f\n"  \
    "add r0, r1\n"            \
    "adds r0, #1\n"           \
    "str r0, [r11, #" entry "]\n"
#define NUMBERS LOAD_FACTORS "ldr r1, [r11, #28]\n" ENTER("36", "2") ENTER("52", "3")
#define RESULTS ROUND_AND_STORE
#include "dot_few.h"

PAIRS(pairs, SUMS("36", "2"), SUMS("52", "3"), "")

void pillion_mve_dot16_few(pillion_mve_pairs *s) {
    keep(s);
    s->x0 += 16 * s->loops, s->x1 += 16 * s->loops;
    s->loops = (PIECES - s->loops) * PIECE_BYTES;
    pairs(s);
}

#endif

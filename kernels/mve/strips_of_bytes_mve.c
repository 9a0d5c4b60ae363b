/* SPDX-License-Identifier: Apache-2.0
 * Makes the strips of a channel of bytes; see strips.h.
 *
 * Two gathers fetch eight columns of two rows, one byte to a 16-bit lane; VMOVNT puts them together, and a two-way
 * interleaving store merges the pair with the pair of rows above it (q0). A row outside the image is not read: it is the
 * zero point (q5). A round is two pairs of rows of eight columns; a pair that is odd comes first.
 * Registers: r1 x, r3 strips, r4 and r5 from pair to pair of them, r6 and r7 the block of columns, r8 and r9 to the
 * next block, r10 rounds, r11 the table, r12 blocks left; q0 the pair above, q1 q2 this one, q5 zero points, q6 q7
 * offsets of the columns.
 *
 * A single strip whose rows are all inside the image, as a few rows of a large image are, needs no such questions: then a round is a block
 * of columns. Of three rows, the place of the fourth holds anything: no wanted output has weights there. */
#include "strips.h"

#if defined(__ARM_FEATURE_MVE)
/* A pair of rows at r1; r0 and r2 say whether they lie in the image. */
#define EDGE(q)                        \
    "vmov " q ", q5\n"                 \
    "vmov q2, q5\n"                    \
    "cbz r0, 8f\n"                     \
    "vldrb.u16 " q ", [r1, q7]\n"      \
    "8:\n"                             \
    "cbz r2, 9f\n"                     \
    "vldrb.u16 q2, [r1, q6]\n"         \
    "9:\n"                             \
    "vmovnt.i16 " q ", q2\n"

/* A pair of rows inside the image to `pair`, stored below `above`. */
#define NEXT_PAIR(above, pair, q)             \
    "add r1, r4\n"                            \
    "vldrb.u16 " pair ", [r1, q7]\n"          \
    "vldrb.u16 " q ", [r1, q6]\n"             \
    "vmovnt.i16 " pair ", " q "\n"            \
    "vst20.16 {" above ", " pair "}, [r3]\n"  \
    "vst21.16 {" above ", " pair "}, [r3]\n"  \
    "add r3, r5\n"

/* A block of eight columns of a single strip: q0 and q1 are its pairs of rows. */
#define SINGLE(second_pair)            \
    "wls lr, r12, 5f\n"                \
    "4:\n"                             \
    "add r1, r6, r4\n"                 \
    "vldrb.u16 q0, [r6, q7]\n"         \
    "vldrb.u16 q2, [r6, q6]\n"         \
    "vmovnt.i16 q0, q2\n"              \
    "vldrb.u16 q1, [r1, q7]\n"         \
    second_pair                        \
    "vst20.16 {q0, q1}, [r7]\n"        \
    "vst21.16 {q0, q1}, [r7]\n"        \
    "add r6, r8\n"                     \
    "add r7, r9\n"                     \
    "ldrd r8, r9, [r11, #24]\n"        \
    "le lr, 4b\n"                      \
    "5:\n"                             \
    "b 6f\n"

PILLION_NAKED void pillion_mve_strips_of_bytes(PILLION_UNUSED const pillion_mve_strip_build *b, PILLION_UNUSED const int8_t *x,
                                               PILLION_UNUSED void *strips) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "mov r11, r0\n"
        "ldm r0, {r4, r5, r10, r12}\n" /* pair_step, strip_step, inner, blocks */
        "ldrd r8, r9, [r11, #16]\n"    /* second_x, second_strip */
        "ldrd r6, r7, [r11, #48]\n"
        "adds r6, r1\n" /* the block: in x and in the strips */
        "adds r7, r2\n"
        "ldrd r0, r2, [r11, #56]\n" /* zp, single */
        "vdup.16 q5, r0\n"
        "vldrh.u16 q7, [r11, #64]\n"
        "vldrh.u16 q6, [r11, #80]\n"
        "cbz r2, 1f\n"
        "cmp r2, #4\n"
        "bne 7f\n"
        SINGLE("vldrb.u16 q2, [r1, q6]\n"
               "vmovnt.i16 q1, q2\n")
        "7:\n"
        SINGLE("")
        "1:\n"
        "mov r1, r6\n"
        "mov r3, r7\n"
        "ldrd r0, r2, [r11, #32]\n" EDGE("q0")
        "lsrs r0, r10, #1\n"
        "bcc 3f\n"
        NEXT_PAIR("q0", "q1", "q2")
        "vmov q0, q1\n"
        "3:\n"
        "wls lr, r0, 5f\n"
        "4:\n"
        NEXT_PAIR("q0", "q1", "q2") NEXT_PAIR("q1", "q2", "q3")
        "vmov q0, q2\n"
        "le lr, 4b\n"
        "5:\n"
        "add r1, r4\n"
        "ldrd r0, r2, [r11, #40]\n" EDGE("q1")
        "vst20.16 {q0, q1}, [r3]\n"
        "vst21.16 {q0, q1}, [r3]\n"
        "add r6, r8\n"
        "add r7, r9\n"
        "ldrd r8, r9, [r11, #24]\n"
        "subs r12, #1\n"
        "bne 1b\n"
        "6:\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}

#endif

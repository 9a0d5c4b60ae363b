/* SPDX-License-Identifier: Apache-2.0
 * One vector of inputs by eight rows of weights at a time, for layers without images.
 *
 * A piece of 16 inputs is one load of x, eight of weights and eight VMLADAVA to r0 r2 r4 r6 (even rows of the group) and
 * r8 r10 r12 lr (odd ones). The loop over pieces is entered in its middle (r9) where their number is no multiple of
 * PILLION_MVE_PIECES, which are a round. The constants of a group begin with eight sums and its weights, even rows first.
 * Registers: r0 r2 r4 r6 r8 r10 r12 lr sums, r1 x, r3 y, r5 constants of all groups, without a step back, r7 rounds
 * left, r9 where the first round begins, r11 the state; q0 inputs, q1 q3 weights. */
#ifndef PILLION_MVE_EIGHTS_H
#define PILLION_MVE_EIGHTS_H

#include "pillion/assembly.h"

#define PILLION_MVE_PIECES 8
#define PILLION_MVE_PIECE_BYTES 68 /* of code */

#define PILLION_MVE_TWO(q, a, b)       \
    "vldrw.u32 " q ", [r5], #16\n"     \
    "vmladava.s8 " a ", q0, " q "\n"   \
    "vldrw.u32 q3, [r5], #16\n"        \
    "vmladava.s8 " b ", q0, q3\n"
#define PILLION_MVE_PIECE              \
    "vldrb.u8 q0, [r1], #16\n"         \
    PILLION_MVE_TWO("q1", "r0", "r2") PILLION_MVE_TWO("q1", "r4", "r6") \
    PILLION_MVE_TWO("q1", "r8", "r10") PILLION_MVE_TWO("q1", "r12", "lr")

/* The beginning of a state. */
typedef struct {
    const int8_t *x;      /* r1 */
    int32_t loops, entry; /* r7 r9 */
} pillion_mve_eights;
PILLION_FIELDS_AT(pillion_mve_eights, 0, x, loops, entry);

/* So many pieces of a vector; one at least. */
static inline pillion_mve_eights pillion_mve_eights_of(const int8_t *x, int32_t pieces) {
    const int32_t loops = (pieces + PILLION_MVE_PIECES - 1) / PILLION_MVE_PIECES;
    const pillion_mve_eights made = {x, loops, (loops * PILLION_MVE_PIECES - pieces) * PILLION_MVE_PIECE_BYTES};
    return made;
}

/* The same of eight inputs of 16 bits: loads widen the weights. */
#define PILLION_MVE_ONE_16(row) "vldrb.s16 q1, [r5], #8\n" "vmladava.s16 " row ", q0, q1\n"
#define PILLION_MVE_PIECE_16           \
    "vldrh.u16 q0, [r1], #16\n"        \
    PILLION_MVE_ONE_16("r0") PILLION_MVE_ONE_16("r2") PILLION_MVE_ONE_16("r4") PILLION_MVE_ONE_16("r6") \
    PILLION_MVE_ONE_16("r8") PILLION_MVE_ONE_16("r10") PILLION_MVE_ONE_16("r12") PILLION_MVE_ONE_16("lr")

/* `finish` makes answers of the sums of a group, and has r5 behind its constants; it ends by comparing r5 with their
 * end. */
#define PILLION_MVE_GROUPS(s, y, constants, finish) PILLION_MVE_GROUPS_OF(PILLION_MVE_PIECE, s, y, constants, finish)
#define PILLION_MVE_GROUPS_OF(piece, s, y, constants, finish)                                                          \
    register void *r0 __asm__("r0") = s;                                                                               \
    register void *r3 __asm__("r3") = y;                                                                               \
    register const int32_t *r5 __asm__("r5") = constants;                                                              \
    __asm__ volatile(                                                                                                  \
        "push {r7, r11}\n"                                                                                             \
        "mov r11, r0\n"                                                                                                \
        "ldr r2, [r11, #8]\n" /* bytes of code to skip */                                                              \
        "adr.w r0, 2f\n"                                                                                               \
        "add r0, r2\n"                                                                                                 \
        "adds r0, #1\n"                                                                                                \
        "str r0, [r11, #8]\n"                                                                                          \
        "1:\n"                                                                                                         \
        "ldm r5!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"                                                                \
        "ldm r11, {r1, r7, r9}\n"                                                                                      \
        "bx r9\n"                                                                                                      \
        ".p2align 2\n"                                                                                                 \
        "2:\n"                                                                                                         \
        PILLION_REPEAT("2b", PILLION_MVE_PIECES, PILLION_MVE_PIECE_BYTES, piece)                                       \
        "subs r7, #1\n"                                                                                                \
        "bne 2b\n"                                                                                                     \
        finish                                                                                                         \
        "bne 1b\n"                                                                                                     \
        "pop {r7, r11}\n"                                                                                              \
        : "+r"(r0), "+r"(r3), "+r"(r5)                                                                                 \
        :                                                                                                              \
        : "r1", "r2", "r4", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory")

#endif

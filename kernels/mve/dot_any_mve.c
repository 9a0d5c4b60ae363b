/* SPDX-License-Identifier: Apache-2.0
 * The loop of the dot products for any number of inputs; see dot_asm.h. A piece of 16 inputs is 6 loads and 8 multiplies.
 * The loop over pieces is entered in its middle (r9) where their number is no multiple of UNROLL. Twelve pieces are a
 * round.
 * Registers: as dot_asm.h says. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_asm.h"

#define UNROLL 12
#define PIECE_BYTES 56 /* of code */

static __attribute__((noinline)) void pairs(pillion_mve_pairs *s) {
    register pillion_mve_pairs *r0 __asm__("r0") = s;
    __asm__ volatile(
        "push {r7, r11}\n"
        "mov r11, r0\n"
        "ldr r2, [r11, #52]\n" /* bytes of code to skip */
        "adr.w r0, 2f\n"
        "add r0, r2\n"
        "adds r0, #1\n"
        "str r0, [r11, #36]\n"
        "adr.w r0, 3f\n"
        "add r0, r2\n"
        "adds r0, #1\n"
        "str r0, [r11, #52]\n"
        "0:\n" LOAD_STATE LOAD_GROUP
        "1:\n" LOAD_BIAS
        "bx r9\n"
        ".p2align 2\n"
        "2:\n" PILLION_REPEAT("2b", UNROLL, PIECE_BYTES, PIECE)
        "subs r7, #1\n"
        "bne.w 2b\n" MOVE_SUMS("q4", "q5") LOAD_PLACES
        "ldrd r7, r9, [r11, #48]\n" LOAD_BIAS
        "bx r9\n"
        ".p2align 2\n"
        "3:\n" PILLION_REPEAT("3b", UNROLL, PIECE_BYTES, PIECE)
        "subs r7, #1\n"
        "bne.w 3b\n" MOVE_SUMS("q0", "q1") REQUANTIZE_AND_STORE
        "add r1, r8\n"
        "add r3, r8\n" STORE_PLACES
        "cmp r0, r6\n"
        "bne.w 1b\n" NEXT_ROW_OR_GROUP("add r3, r2\n", "1b", "0b", "9f")
        "9:\n"
        "pop {r7, r11}\n"
        : "+r"(r0)
        :
        : DOT_CLOBBERS);
}

void pillion_mve_dot_any(pillion_mve_pairs *s) {
    const int32_t chunks = s->loops;
    s->loops = s->loops_again = (chunks + UNROLL - 1) / UNROLL;
    s->odd_entry = (s->loops * UNROLL - chunks) * PIECE_BYTES;
    pairs(s);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The loops of the dot products for 2, 3 and 4 pieces of 16 inputs, without a loop over pieces; see dot_asm.h.
 * Registers: as dot_asm.h says. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_asm.h"

#define PAIRS(name, pieces)                                                     \
    void name(pillion_mve_pairs *s) {                                           \
        register pillion_mve_pairs *r0 __asm__("r0") = s;                       \
        __asm__ volatile(                                                       \
            "push {r7, r11}\n"                                                  \
            "mov r11, r0\n"                                                     \
            "0:\n" LOAD_STATE LOAD_MULTIPLIERS                                  \
            "1:\n" LOAD_BIAS pieces MOVE_SUMS("q4", "q5")                       \
            LOAD_PLACES LOAD_BIAS pieces MOVE_SUMS("q0", "q1")                  \
            REQUANTIZE_AND_STORE                                                \
            "add r1, r8\n"                                                      \
            "add r3, r8\n" STORE_PLACES                                         \
            "cmp r0, r6\n"                                                      \
            "bne.w 1b\n" NEXT_ROW_OR_GROUP("add r3, r2\n", "1b", "0b", "9f")    \
            "9:\n"                                                              \
            "pop {r7, r11}\n"                                                   \
            : "+r"(r0)                                                          \
            :                                                                   \
            : DOT_CLOBBERS);                                                    \
    }

PAIRS(pillion_mve_dot_2, PIECE PIECE)
PAIRS(pillion_mve_dot_3, PIECE PIECE PIECE)
PAIRS(pillion_mve_dot_4, PIECE PIECE PIECE PIECE)

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The products of three tiles times two output channels, 8 instructions for 12 of them, as text of assembly: what the kernels by Winograd's way share.
 *
 * Who includes this defines FAMILY, with which its labels begin. A step takes two inputs. Eight steps are a round, after which `lr` walks on in a list of jumps: to
 * more steps, or to what follows them.
 * Registers: r0 inputs, r12 weights, lr the list of jumps; r1-r3 inputs of the three tiles, r4 r5 weights, r6-r8 sums of channel A, r9-r11 of B. */
#ifndef PILLION_DSP_WINOGRAD_STEPS_H
#define PILLION_DSP_WINOGRAD_STEPS_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

#define UNROLLED 8 /* steps to a round */
#define STEP_BYTES 30

#define PLACE(name) ".global " FAMILY name "\n" FAMILY name ":\n"
#define GO_ON "ldr pc, [lr], #4\n"

#define LOAD                           \
    "ldrd r4, r5, [r12], #8\n"         \
    "ldmia.n r0!, {r1, r2, r3}\n"
#define STEP                           \
    LOAD                               \
    "smlad r6, r1, r4, r6\n"           \
    "smlad r7, r2, r4, r7\n"           \
    "smlad r8, r3, r4, r8\n"           \
    "smlad r9, r1, r5, r9\n"           \
    "smlad r10, r2, r5, r10\n"         \
    "smlad r11, r3, r5, r11\n"
#define STEPS ".balign 4\n" PLACE("steps") PILLION_REPEAT(FAMILY "steps", UNROLLED, STEP_BYTES, STEP) GO_ON
#define FIRST_STEP                     \
    LOAD                               \
    "smuad r6, r1, r4\n"               \
    "smuad r7, r2, r4\n"               \
    "smuad r8, r3, r4\n"               \
    "smuad r9, r1, r5\n"               \
    "smuad r10, r2, r5\n"              \
    "smuad r11, r3, r5\n" GO_ON
#define FIRST_STEP_WITH_BIAS /* of A in r8, of B in r11 */ \
    LOAD                               \
    "smlad r6, r1, r4, r8\n"           \
    "smlad r7, r2, r4, r8\n"           \
    "smlad r8, r3, r4, r8\n"           \
    "smlad r9, r1, r5, r11\n"          \
    "smlad r10, r2, r5, r11\n"         \
    "smlad r11, r3, r5, r11\n" GO_ON

/* The six sums to and from the stack. */
#define STORE_FIRST "stmia sp, {r6-r11}\n"
#define LOAD_FIRST "ldmia sp, {r6-r11}\n"

/* s, r = s - r, s + r: those on the stack become differences. */
#define SUM_AND_DIFFERENCE(s, r)       \
    "sub " s ", " s ", " r "\n"        \
    "add " r ", " s ", " r ", lsl #1\n"
#define SUMS_AND_DIFFERENCES           \
    "ldmia sp, {r1-r5}\n"              \
    SUM_AND_DIFFERENCE("r1", "r6")     \
    SUM_AND_DIFFERENCE("r2", "r7")     \
    SUM_AND_DIFFERENCE("r3", "r8")     \
    SUM_AND_DIFFERENCE("r4", "r9")     \
    SUM_AND_DIFFERENCE("r5", "r10")    \
    "stmia sp, {r1-r5}\n"              \
    "ldr r1, [sp, #20]\n"              \
    SUM_AND_DIFFERENCE("r1", "r11")    \
    "str r1, [sp, #20]\n"

/* Lists the jumps of so many steps, the code of which begins at `code`: the first round enters where it must. */
static inline uint32_t *list_steps(uint32_t *jump, const uint8_t *code, int32_t steps) {
    int32_t first = (steps - 1) % UNROLLED + 1;
    for (; steps > 0; steps -= first, first = UNROLLED) {
        *jump++ = pillion_thumb(code + (UNROLLED - first) * STEP_BYTES);
    }
    return jump;
}
#endif

#endif

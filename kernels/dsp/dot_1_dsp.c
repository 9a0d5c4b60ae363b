/* SPDX-License-Identifier: Apache-2.0
 * One pixel times all output channels, from the constants and the blocks that dot_dsp.c takes for three: 9 instructions
 * for 8 products. It saves half of a block where a single pixel is left. Sums that are set aside and inputs that are
 * wanted twice are left to dot_dsp.c. A round is four steps of four inputs each.
 * Registers: r0 inputs, r12 weights, lr rounds left; r1 r2 inputs, r4 r5 weights, r6 T, r9 S_A; r7 where the first round
 * begins, r8 y, r10 start of the inputs, r11 rounds. */
#include "pillion/assembly.h"
#include "dot_asm.h"

#if PILLION_HAS_DSP

#define STEPS_OF_ROUND 4
#define STEP_BYTES 36

/* r0 x, r12 weights; r1 r2 inputs, r4 r5 weights, r6 T, r9 S_A. STEP_BYTES long. */
#define STEP                      \
    "ldrd r4, r5, [r12], #8\n"    \
    "ldr r1, [r0], #12\n"         \
    "ldr r2, [r0], #12\n"         \
    "smlad r6, r1, r4, r6\n"      \
    "sxtb16 r4, r4\n"             \
    "smlad r9, r1, r4, r9\n"      \
    "smlad r6, r2, r5, r6\n"      \
    "sxtb16 r5, r5\n"             \
    "smlad r9, r2, r5, r9\n"

extern const uint8_t pillion_dsp_dot_one_steps[];

/* r10 and r11 keep the first input and the number of rounds; the sign of the shifts ends the run. */
PILLION_NAKED static const int32_t *pairs_of_one(PILLION_UNUSED const pillion_dsp_one_loop *loop, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r7, r8, r10, r11}\n"
                   "1:\n"
                   "ldrd r6, r9, [r12], #8\n"
                   "mov r0, r10\n"
                   "mov lr, r11\n"
                   "bx r7\n"
                   ".balign 4\n" PLACE("one_steps")
                   "2:\n"
                   PILLION_REPEAT("2b", STEPS_OF_ROUND, STEP_BYTES, STEP)
                   "subs lr, lr, #1\n"
                   "bne 2b\n"
                   "ldmia r12!, {r1-r5}\n" CHANNEL_B(REQUANTIZE, "r6", "r9")
                   "asrs r5, r5, #8\n" CHANNEL_A(REQUANTIZE, "r9")
                   "strb r6, [r8, #1]\n"
                   "strb r9, [r8], #2\n"
                   "bpl 1b\n"
                   "mov r0, r12\n"
                   "pop {r4-r11, pc}\n");
}

void pillion_dsp_dot_1(const pillion_dsp_dot *dot, int8_t *y) {
    const int32_t rounds = (dot->steps + STEPS_OF_ROUND - 1) / STEPS_OF_ROUND;
    const int32_t skipped = rounds * STEPS_OF_ROUND - dot->steps;
    pillion_dsp_one_loop loop = {pillion_thumb(pillion_dsp_dot_one_steps + skipped * STEP_BYTES), y, dot->blocks, rounds, 0};
    pillion_dsp_run_one(dot, y, &loop, pairs_of_one);
}
#endif

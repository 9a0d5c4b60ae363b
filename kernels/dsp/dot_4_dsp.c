/* SPDX-License-Identifier: Apache-2.0
 * The dot products of dot_dsp.c with weights of four bits. The weights A and B of a pair are a byte h = 16 * B + A + 8: SXTB16 makes
 * halfwords of two, whose products are T = 16 * S_B + U; their low four bits are A + 8, with products U = S_A + 8 * sum(x). A step takes four
 * inputs: 19 instructions for 24 products. sum(x) is found once for all pairs; the loop has 16 * sum(x) on its stack.
 * Registers are those of dot_dsp.c, r9-r11 being U. */
#include "pillion/assembly.h"
#include "dot_asm.h"

#if PILLION_HAS_DSP

PILLION_AT(pillion_dsp_pair_loop, sums, 20);

#define UNROLLED 8 /* steps to a round */
#define STEP_BYTES 72

/* The products of a word of halfwords, whose high bits are then taken away. */
#define PRODUCTS(w, t0, t1, t2, s0, s1, s2)   \
    "smlad r6, r1, " w ", " t0 "\n"           \
    "smlad r7, r2, " w ", " t1 "\n"           \
    "smlad r8, r3, " w ", " t2 "\n"           \
    "and " w ", " w ", #0x000f000f\n"         \
    "smlad r9, r1, " w ", " s0 "\n"           \
    "smlad r10, r2, " w ", " s1 "\n"          \
    "smlad r11, r3, " w ", " s2 "\n"
#define STEP(first)                           \
    "ldr r5, [r12], #4\n"                     \
    "ldmia.n r0!, {r1, r2, r3}\n"             \
    "sxtb16 r4, r5\n" first                   \
    "ldmia.n r0!, {r1, r2, r3}\n"             \
    "sxtb16 r5, r5, ror #8\n" PRODUCTS("r5", "r6", "r7", "r8", "r9", "r10", "r11")
#define FIRST_STEP STEP(PRODUCTS("r4", "r8", "r8", "r8", "r11", "r11", "r11"))
#define NEXT_STEP STEP(PRODUCTS("r4", "r6", "r7", "r8", "r9", "r10", "r11"))

#define ONLY_B(t, u) "sub " t ", " t ", " u "\n" "asr " t ", " t ", #3\n" REQUANTIZE(t, "r1", "r2")
#define ONLY_A(u, sum) "ldr r0, [sp, #" sum "]\n" "rsb " u ", r0, " u ", lsl #1\n" REQUANTIZE(u, "r3", "r4")

extern const uint8_t pillion_dsp_dot_steps_4[], pillion_dsp_dot_requantize_4[], pillion_dsp_dot_one_steps_4[];

PILLION_NAKED static const int32_t *pairs_of_channels(PILLION_UNUSED const pillion_dsp_pair_loop *loop, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r1-r8}\n"
                   "push {r1-r8}\n"
                   "1:\n"
                   "ldrd r8, r11, [r12], #8\n"
                   "ldrd r0, lr, [sp, #12]\n" FIRST_STEP /* sets all six sums */
                   "ldr pc, [lr], #4\n"
                   ".balign 4\n" PLACE("steps_4")
                   PILLION_REPEAT("pillion_dsp_dot_steps_4", UNROLLED, STEP_BYTES, NEXT_STEP)
                   "ldr pc, [lr], #4\n"
                   PLACE("requantize_4")
                   "ldmia r12!, {r1-r5}\n" /* the constants */
                   ONLY_B("r6", "r9") ONLY_B("r7", "r10") ONLY_B("r8", "r11")
                   "asrs r5, r5, #8\n" /* the sign ends the run; no flag changes until then */
                   ONLY_A("r9", "20") ONLY_A("r10", "24") ONLY_A("r11", "28")
                   "ldmia sp, {r1-r3}\n" /* y */
                   "strb r6, [r1, #1]\n"
                   "strb r7, [r2, #1]\n"
                   "strb r8, [r3, #1]\n"
                   "strb r9, [r1], #2\n"
                   "strb r10, [r2], #2\n"
                   "strb r11, [r3], #2\n"
                   "stmia sp, {r1-r3}\n"
                   "bpl.w 1b\n"
                   "mov r0, r12\n"
                   "add sp, sp, #32\n"
                   "pop {r4-r11, pc}\n");
}

/* 16 times the sum of the inputs of each pixel. */
static void sum_inputs(const pillion_dsp_dot *dot, int32_t *sums) {
    const int32_t *x = dot->blocks, *const end = x + dot->steps * PILLION_DSP_BLOCK_WORDS;
    int32_t s0 = 0, s1 = 0, s2 = 0;
    __asm volatile("1:\n"
                   "ldmia %[x]!, {r4-r6, r8-r10}\n"
                   "smlad %[s0], r4, %[ones], %[s0]\n"
                   "smlad %[s1], r5, %[ones], %[s1]\n"
                   "smlad %[s2], r6, %[ones], %[s2]\n"
                   "smlad %[s0], r8, %[ones], %[s0]\n"
                   "smlad %[s1], r9, %[ones], %[s1]\n"
                   "smlad %[s2], r10, %[ones], %[s2]\n"
                   "cmp %[x], %[end]\n"
                   "bne 1b\n"
                   : [x] "+&r"(x), [s0] "+&r"(s0), [s1] "+&r"(s1), [s2] "+&r"(s2)
                   : [end] "r"(end), [ones] "r"(0x00100010)
                   : "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2;
}

static void three_pixels(pillion_dsp_dot *dot, int8_t *y) {
    sum_inputs(dot, dot->loop.sums);
    pillion_dsp_run_pairs(dot, y, pairs_of_channels);
}

void pillion_dsp_dot_4_begin(pillion_dsp_dot *dot, int32_t pixels, void *scratch) {
    uint32_t *jump = pillion_dsp_place(dot, pixels, scratch);
    dot->three = three_pixels;
    const int32_t looped = dot->steps - 1, first = looped % UNROLLED; /* all rounds but the first are whole ones */
    if (first > 0) {
        *jump++ = pillion_thumb(pillion_dsp_dot_steps_4 + (UNROLLED - first) * STEP_BYTES);
    }
    for (int32_t rounds = looped / UNROLLED; rounds > 0; rounds--) {
        *jump++ = pillion_thumb(pillion_dsp_dot_steps_4);
    }
    *jump++ = pillion_thumb(pillion_dsp_dot_requantize_4);
    dot->rest = jump;
}

/* One pixel, as in dot_1_dsp.c: 11 instructions for 8 products. */
#define ONE_STEPS_OF_ROUND 4
#define ONE_STEP_BYTES 44
#define ONE_STEP                      \
    "ldr r5, [r12], #4\n"             \
    "ldr r1, [r0], #12\n"             \
    "ldr r2, [r0], #12\n"             \
    "sxtb16 r4, r5\n"                 \
    "sxtb16 r5, r5, ror #8\n"         \
    "smlad r6, r1, r4, r6\n"          \
    "and r4, r4, #0x000f000f\n"       \
    "smlad r9, r1, r4, r9\n"          \
    "smlad r6, r2, r5, r6\n"          \
    "and r5, r5, #0x000f000f\n"       \
    "smlad r9, r2, r5, r9\n"

PILLION_NAKED static const int32_t *pairs_of_one(PILLION_UNUSED const pillion_dsp_one_loop *loop, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r7, r8, r10, r11, lr}\n"
                   "push {lr}\n"
                   "1:\n"
                   "ldrd r6, r9, [r12], #8\n"
                   "mov r0, r10\n"
                   "mov lr, r11\n"
                   "bx r7\n"
                   ".balign 4\n" PLACE("one_steps_4")
                   "2:\n"
                   PILLION_REPEAT("2b", ONE_STEPS_OF_ROUND, ONE_STEP_BYTES, ONE_STEP)
                   "subs lr, lr, #1\n"
                   "bne 2b\n"
                   "ldmia r12!, {r1-r5}\n" ONLY_B("r6", "r9")
                   "asrs r5, r5, #8\n" ONLY_A("r9", "0")
                   "strb r6, [r8, #1]\n"
                   "strb r9, [r8], #2\n"
                   "bpl 1b\n"
                   "mov r0, r12\n"
                   "pop {r1, r4-r11, pc}\n");
}

void pillion_dsp_dot_4_one(const pillion_dsp_dot *dot, int8_t *y) {
    int32_t sums[3];
    sum_inputs(dot, sums);
    const int32_t rounds = (dot->steps + ONE_STEPS_OF_ROUND - 1) / ONE_STEPS_OF_ROUND;
    const int32_t skipped = rounds * ONE_STEPS_OF_ROUND - dot->steps;
    const uint32_t entry = pillion_thumb(pillion_dsp_dot_one_steps_4 + skipped * ONE_STEP_BYTES);
    pillion_dsp_one_loop loop = {entry, y, dot->blocks, rounds, sums[0]};
    pillion_dsp_run_one(dot, y, &loop, pairs_of_one);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * The dot products of all convolutions: three pixels times two output channels at a time.
 *
 * A word of weights holds 256 * B + A for two inputs, A and B being the channels of a pair. SMLAD with the word as it
 * is adds to T = S_A + 256 * S_B; SXTB16 leaves A in its place, and a second SMLAD adds to S_A. At the end
 * S_B = (T - S_A) / 256, exact in 32 bits while |S_B| < 2^23. So four weights cost one unpacking, and stay bytes in
 * flash. Four inputs take 17 instructions for 24 products.
 *
 * Requantize, from twice the sum (S_B comes doubled, by a shift of 7): SMMLAR gives round(sum * multiplier / 2^31) on
 * top of `round`, which carries the half of the second rounding and the zero point; one less for a negative sum makes
 * that rounding half away from zero. The shift to the right must be 1 or more. */
#include "asm_function.h"
#include "dot.h"

#if PILLION_HAS_DSP

/* What the inner loop keeps on its stack; the offsets are in its text. */
typedef struct {
    int8_t *y[3];           /*  0 */
    const int32_t *x;       /* 12 */
    uint32_t rounds;        /* 16: of the loop, UNROLLED steps each */
    uint32_t skip;          /* 20: steps of its first round that are left out; then the address that does so */
    const int32_t *end;     /* 24: of the stream */
    uint32_t rectified;     /* 28: then the address of the requantization */
} pair_loop;

#define UNROLLED 8u /* the .rept below */

/* One step: r0 x, r12 weights; r1-r3 inputs of three pixels, r4 r5 weights, r6-r8 T, r9-r11 S_A. The first step of a
 * pair adds to the constants in r8 and r11 instead. Always 64 bytes long. */
#define PRODUCTS(w, t0, t1, t2, s0, s1, s2) \
    "smlad r6, r1, " w ", " t0 "\n"         \
    "smlad r7, r2, " w ", " t1 "\n"         \
    "smlad r8, r3, " w ", " t2 "\n"         \
    "sxtb16 " w ", " w "\n"                 \
    "smlad r9, r1, " w ", " s0 "\n"         \
    "smlad r10, r2, " w ", " s1 "\n"        \
    "smlad r11, r3, " w ", " s2 "\n"
#define STEP(first)                                                                \
    "ldrd r4, r5, [r12], #8\n"                                                     \
    "ldmia.n r0!, {r1, r2, r3}\n" first                                              \
    "ldmia.n r0!, {r1, r2, r3}\n" PRODUCTS("r5", "r6", "r7", "r8", "r9", "r10", "r11")
#define FIRST_STEP STEP(PRODUCTS("r4", "r8", "r8", "r8", "r11", "r11", "r11"))
#define NEXT_STEP STEP(PRODUCTS("r4", "r6", "r7", "r8", "r9", "r10", "r11"))

/* r1 round_B, r2 multiplier_B, r3 round_A, r4 multiplier_A, r5 shift. REQUANTIZE takes twice a sum. */
#define REQUANTIZE(s, round, multiplier)             \
    "add r0, " round ", " s ", asr #31\n"            \
    "smmlar " s ", " s ", " multiplier ", r0\n"      \
    "asr " s ", " s ", r5\n"                         \
    "ssat " s ", #8, " s "\n"
#define REQUANTIZE_RECTIFIED(s, round, multiplier)        \
    "smmlar " s ", " s ", " multiplier ", " round "\n"    \
    "asr " s ", " s ", r5\n"                              \
    "ssat " s ", #8, " s "\n"
#define CHANNEL_B(requantize, t, s)  \
    "sub " t ", " t ", " s "\n"      \
    "asr " t ", " t ", #7\n"         \
    requantize(t, "r1", "r2")
#define CHANNEL_A(requantize, s) "add " s ", " s ", " s "\n" requantize(s, "r3", "r4")
#define BOTH_CHANNELS(requantize)                                                                                       \
    CHANNEL_B(requantize, "r6", "r9") CHANNEL_B(requantize, "r7", "r10") CHANNEL_B(requantize, "r8", "r11")             \
    "lsr r5, r5, #8\n"                                                                                                  \
    CHANNEL_A(requantize, "r9") CHANNEL_A(requantize, "r10") CHANNEL_A(requantize, "r11")

/* Register by register because all fourteen are taken: the loop's own state lives on the stack. */
ASM_FUNCTION static const int32_t *pairs_of_channels(UNUSED const pair_loop *loop, UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r1-r8}\n"
                   "adr r0, 2f\n"
                   "add r6, r0, r6, lsl #6\n"
                   "orr r6, r6, #1\n"
                   "adr r0, 3f\n"
                   "cmp r8, #0\n"
                   "it ne\n"
                   "adrne r0, 4f\n"
                   "orr r8, r0, #1\n"
                   "push {r1-r8}\n"
                   "1:\n"
                   "ldrd r8, r11, [r12], #8\n"
                   "ldrd r0, lr, [sp, #12]\n" /* the inputs, rounds */
                   FIRST_STEP                 /* sets all six sums */
                   "ldr pc, [sp, #20]\n"
                   ".balign 4\n"
                   "2:\n"
                   ".rept 8\n" NEXT_STEP ".endr\n"
                   "subs lr, lr, #1\n"
                   "bne.w 2b\n"
                   "ldmia r12!, {r1-r5}\n" /* the constants */
                   "ldr pc, [sp, #28]\n"
                   ".balign 4\n"
                   "4:\n" BOTH_CHANNELS(REQUANTIZE_RECTIFIED)
                   "b 5f\n"
                   ".balign 4\n"
                   "3:\n" BOTH_CHANNELS(REQUANTIZE)
                   "5:\n"
                   "ldmia sp, {r1-r3}\n" /* y */
                   "strb r6, [r1, #1]\n"
                   "strb r7, [r2, #1]\n"
                   "strb r8, [r3, #1]\n"
                   "strb r9, [r1], #2\n"
                   "strb r10, [r2], #2\n"
                   "strb r11, [r3], #2\n"
                   "stmia sp, {r1-r3}\n"
                   "ldr r0, [sp, #24]\n"
                   "cmp r12, r0\n"
                   "bne.w 1b\n"
                   "mov r0, r12\n"
                   "add sp, sp, #32\n"
                   "pop {r4-r11, pc}\n");
}

/* Copies inputs of all three pixels to their second place. */
static void repeat_inputs(const pillion_dsp_dot *dot, int16_t *blocks) {
    for (int32_t i = 0; i < dot->repeat_count; i++) {
        const int16_t *from = blocks + dot->repeats[2 * i];
        int16_t *to = blocks + dot->repeats[2 * i + 1];
        to[0] = from[0], to[2] = from[2], to[4] = from[4];
    }
}

/* Two results of three pixels each, of which only the first has a place in y. */
static void lone_channel(pair_loop *loop, const int32_t *stream) {
    int8_t results[6];
    int8_t *const y[3] = {loop->y[0], loop->y[1], loop->y[2]};
    for (int32_t i = 0; i < 3; i++) {
        loop->y[i] = results + 2 * i;
    }
    pairs_of_channels(loop, stream);
    for (int32_t i = 0; i < 3; i++) {
        *y[i] = results[2 * i];
    }
}

void pillion_dsp_dot_3(const pillion_dsp_dot *dot, int8_t *y) {
    if (dot->repeat_count != 0) {
        repeat_inputs(dot, (int16_t *)dot->blocks);
    }
    const uint32_t looped = (uint32_t)dot->steps - 1;
    const uint32_t rounds = looped == 0 ? 1 : (looped + UNROLLED - 1) / UNROLLED;
    pair_loop loop = {
        .x = dot->blocks, .rounds = rounds, .skip = rounds * UNROLLED - looped, .rectified = (uint32_t)dot->rectified};
    const int32_t pair_words = 7 + 2 * dot->steps;
    const int32_t *stream = dot->stream;
    const uint16_t *run = dot->runs;
    const uint16_t *const end = run + 2 * dot->run_count;
    for (; run < end; run += 2) {
        loop.y[0] = y + run[0], loop.y[1] = loop.y[0] + dot->second, loop.y[2] = loop.y[0] + dot->third;
        loop.end = stream + run[1] * pair_words;
        if (dot->lone != 0 && run + 2 == end) {
            lone_channel(&loop, stream);
        } else {
            stream = pairs_of_channels(&loop, stream);
        }
    }
}

/* r0-r2 pixels, r3 blocks, r4-r9 one block: of each pixel inputs 0 and 2, then 1 and 3. Two blocks to a round; an odd
 * number of them enters in the middle. */
#define WIDEN                                                                            \
    "ldr r7, [r0], #4\n"                                                                 \
    "ldr r8, [r1], #4\n"                                                                 \
    "ldr r9, [r2], #4\n"                                                                 \
    "sxtb16 r4, r7\n"                                                                    \
    "sxtb16 r5, r8\n"                                                                    \
    "sxtb16 r6, r9\n"                                                                    \
    "sxtb16 r7, r7, ror #8\n"                                                            \
    "sxtb16 r8, r8, ror #8\n"                                                            \
    "sxtb16 r9, r9, ror #8\n"                                                            \
    "stmia r3!, {r4-r9}\n"
ASM_FUNCTION void pillion_dsp_widen_3(UNUSED const int8_t *x0, UNUSED const int8_t *x1, UNUSED const int8_t *x2,
                                      UNUSED int32_t *blocks, UNUSED int32_t steps) {
    __asm volatile("ldr r12, [sp]\n"
                   "push {r4-r9}\n"
                   "add r12, r12, #1\n"
                   "lsrs r12, r12, #1\n"
                   "bcc 2f\n"
                   "1:\n" WIDEN "2:\n" WIDEN
                   "subs r12, r12, #1\n"
                   "bne 1b\n"
                   "pop {r4-r9}\n"
                   "bx lr\n");
}
#endif

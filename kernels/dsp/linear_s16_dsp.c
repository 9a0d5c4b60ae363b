/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits: one vector of inputs by four outputs at a time; a step takes four inputs: 18 instructions for 16 products.
 * Registers: r0 inputs, r1 r2 inputs of a step, r3 weights, r4-r7 sums, r8-r11 weights of the outputs, r12 the stream: of each four outputs
 * bias, weights, factors; lr rounds left.
 *
 * Weights of four bits: a halfword holds those of one input, h = 4096 * C + 256 * (D + 8) + 16 * (A + 8) + (B + 8), a step takes eight inputs: 31
 * instructions for 32 products. With X = sum(x) and the sum S of each output, the sums, which wrap around, are
 *   r4 of h, r5 = S_B + 8 * X of its low four bits, r6 = 16 * S_C + S_D + 8 * X of its upper byte, r7 = S_D + 8 * X of the low half of that,
 * so that r4 - 256 * r6 - r5 - 128 * X = 16 * S_A. Where 16 times a sum has more than 32 bits, a halfword is 4096 * (D + 8) + 256 * (C + 8) +
 * 16 * (B + 8) + (A + 8), and masks leave each weight: 36 instructions, and sums of which 8 * X is taken off. */
#include "dot16.h"
#include "widen.h"

#include <string.h>

#if PILLION_HAS_DSP

/* What the loop keeps on its stack. */
typedef struct {
    const int16_t *x;
    int32_t rounds;
    uint32_t entry; /* 8: steps that the first round skips, in bytes */
    int16_t *y;     /* 12 */
    const int32_t *stream_end;
    int32_t sum; /* 20: eight times the sum of the inputs */
} loop;
PILLION_FIELDS_AT(loop, 0, x, rounds, entry, y, stream_end, sum);

#define OUTPUT(sum, w)                 \
    "sxtb16 r3, " w "\n"               \
    "smlad " sum ", r1, r3, " sum "\n" \
    "sxtb16 " w ", " w ", ror #8\n"    \
    "smlad " sum ", r2, " w ", " sum "\n"
#define STEP_BYTES 72
#define STEP                           \
    "ldmia r12!, {r8, r9, r10, r11}\n" \
    "ldrd r1, r2, [r0], #8\n" OUTPUT("r4", "r8") OUTPUT("r5", "r9") OUTPUT("r6", "r10") OUTPUT("r7", "r11")

#define NIBBLES(x, w)                  \
    "smlad r4, " x ", " w ", r4\n"     \
    "sxtb16 r3, " w ", ror #8\n"       \
    "and " w ", " w ", #0x000f000f\n"  \
    "smlad r6, " x ", r3, r6\n"        \
    "and r3, r3, #0x000f000f\n"        \
    "smlad r5, " x ", " w ", r5\n"     \
    "smlad r7, " x ", r3, r7\n"
#define FOUR(w0, w1) "ldrd r1, r2, [r0], #8\n" NIBBLES("r1", w0) NIBBLES("r2", w1)
#define NIBBLES_BYTES 124
#define STEP_OF_NIBBLES "ldmia r12!, {r8, r9, r10, r11}\n" FOUR("r8", "r9") FOUR("r10", "r11")
#define SEPARATE                       \
    "ldr r0, [sp, #20]\n"              \
    "sub r4, r4, r6, lsl #8\n"         \
    "sub r4, r4, r5\n"                 \
    "sub r4, r4, r0, lsl #4\n"         \
    "sub r6, r6, r7\n"                 \
    "sub r5, r5, r0\n"                 \
    "sub r7, r7, r0\n"                 \
    "asr r4, r4, #4\n"                 \
    "asr r6, r6, #4\n"

#define MASKED(x, w)                      \
    "and r3, r10, " w "\n"                \
    "smlad r4, " x ", r3, r4\n"           \
    "and r3, r10, " w ", lsr #4\n"        \
    "smlad r5, " x ", r3, r5\n"           \
    "and r3, r10, " w ", lsr #8\n"        \
    "smlad r6, " x ", r3, r6\n"           \
    "and r3, r10, " w ", lsr #12\n"       \
    "smlad r7, " x ", r3, r7\n"
#define MASKED_FOUR "ldrd r8, r9, [r12], #8\n" "ldrd r1, r2, [r0], #8\n" MASKED("r1", "r8") MASKED("r2", "r9")
#define MASKED_BYTES 144
#define STEP_OF_MASKED MASKED_FOUR MASKED_FOUR
#define LOAD_MASK "mov r10, #0x000f000f\n"
#define WITHOUT_EIGHTS                 \
    "ldr r0, [sp, #20]\n"              \
    "subs r4, r4, r0\n"                \
    "subs r5, r5, r0\n"                \
    "subs r6, r6, r0\n"                \
    "subs r7, r7, r0\n"

#define LOOP(unrolled, step_bytes, step, prepare, separate)          \
    __asm volatile("push {r4-r11, lr}\n"                             \
                   "mov r12, r1\n"                                   \
                   "adr.w r11, 2f\n"                                 \
                   "ldmia r0, {r1-r6}\n"                             \
                   "add r3, r3, r11\n"                               \
                   "adds r3, #1\n"                                   \
                   "push {r1-r6}\n"                                  \
                   "1:\n"                                            \
                   "ldmia r12!, {r4-r7}\n" prepare                   \
                   "ldrd r0, lr, [sp]\n"                             \
                   "ldr pc, [sp, #8]\n"                              \
                   ".balign 4\n"                                     \
                   "2:\n" PILLION_REPEAT("2b", unrolled, step_bytes, step) \
                   "subs lr, #1\n"                                   \
                   "bne.w 2b\n"                                      \
                   separate                                          \
                   "ldmia r12!, {r8-r11}\n"                          \
                   "ldrd r0, r1, [sp, #12]\n"                        \
                   ROUND_16(SIGNED, "r4", "r8") ROUND_16(SIGNED, "r5", "r9") ROUND_16(SIGNED, "r6", "r10") ROUND_16(SIGNED, "r7", "r11") \
                   "strh r4, [r0], #2\n"                             \
                   "strh r5, [r0], #2\n"                             \
                   "strh r6, [r0], #2\n"                             \
                   "strh r7, [r0], #2\n"                             \
                   "str r0, [sp, #12]\n"                             \
                   "cmp r12, r1\n"                                   \
                   "bne.w 1b\n"                                      \
                   "add sp, sp, #24\n"                               \
                   "pop {r4-r11, pc}\n")

PILLION_NAKED static void fours_of_outputs(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    LOOP(8, STEP_BYTES, STEP, "", "");
}

PILLION_NAKED static void fours_of_nibbles(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    LOOP(4, NIBBLES_BYTES, STEP_OF_NIBBLES, "", SEPARATE);
}

PILLION_NAKED static void fours_of_masked(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    LOOP(4, MASKED_BYTES, STEP_OF_MASKED, LOAD_MASK, WITHOUT_EIGHTS);
}

/* All vectors by a loop, of which a step has `inputs` inputs and so many bytes of code; a round has `unrolled` steps. */
PILLION_INLINE void vectors(const pillion_linear_s16_dsp_params *p, const int16_t *x, int16_t *y, int32_t *scratch, int32_t inputs,
                           int32_t unrolled, int32_t step_bytes, void (*fours_of)(const loop *s, const int32_t *stream)) {
    const int32_t fours = p->out_features / 4, rest = p->out_features % 4, words = 8 + 4 * p->steps;
    const int32_t rounds = (p->steps + unrolled - 1) / unrolled;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        int16_t last[4];
        loop s = {(const int16_t *)scratch, rounds, (uint32_t)((rounds * unrolled - p->steps) * step_bytes), y, p->stream + fours * words, 0};
        memset((int16_t *)scratch + p->in_features, 0, (size_t)(2 * inputs * p->steps - 2 * p->in_features));
        memcpy(scratch, x, 2 * (size_t)p->in_features);
        if (inputs == 8) {
            s.sum = pillion_dsp_sum_words(scratch, 2 * p->steps, 8);
        }
        if (fours > 0) {
            fours_of(&s, p->stream);
        }
        if (rest > 0) { /* four outputs, the surplus of which is nothing */
            s.y = last, s.stream_end += words;
            fours_of(&s, p->stream + fours * words);
            memcpy(y + 4 * fours, last, 2 * (size_t)rest);
        }
        pillion_dsp_clamp_16(y, p->out_features, p->low, p->high);
    }
}

void pillion_linear_s16_dsp(const pillion_linear_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    vectors(p, x, y, scratch, 4, 8, STEP_BYTES, fours_of_outputs);
}

void pillion_linear_s16_s4_dsp(const pillion_linear_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    vectors(p, x, y, scratch, 8, 4, NIBBLES_BYTES, fours_of_nibbles);
}

void pillion_linear_large_s16_s4_dsp(const pillion_linear_large_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    vectors(p, x, y, scratch, 8, 4, MASKED_BYTES, fours_of_masked);
}
#endif

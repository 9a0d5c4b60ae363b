/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits: one vector of inputs by four outputs A to D at a time; a step takes four inputs: 14 instructions for 16 products.
 * Registers: r0 inputs, r1 r2 inputs of a step, r12 the stream: of each four outputs sums to begin with, weights, factors. r3 r4 and r6 r7 sums of 64 bits, r5 and r8 sums,
 * r9-r11 lr weights. With weights of four bits r3 weights, r4-r7 sums, r8-r11 weights of the outputs, lr rounds left.
 *
 * A halfword holds the weights of one input for two outputs, h = 256 * B + (A + 128). With X = sum(x) and the sum S of each output, r4:r3 is the sum of h, and
 * r5 = S_A + 128 * X, which wraps around, that of its lower byte: r4:r3 - 128 * X - S_A = 256 * S_B. C and D have r7:r6 and r8.
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
    int32_t sum, sum_high;  /* 20: 128 times the sum of the inputs, or 8 times that without the upper word */
    const int16_t *x_end;   /* 28 */
} loop;
PILLION_FIELDS_AT(loop, 0, x, rounds, entry, y, stream_end, sum, sum_high, x_end);

#define PAIR(low, high, sum, x, w)                 \
    "smlald " low ", " high ", " x ", " w "\n"     \
    "uxtb16 " w ", " w "\n"                        \
    "smlad " sum ", " x ", " w ", " sum "\n"
#define STEP_BYTES 56
#define STEP                           \
    "ldmia r12!, {r9, r10, r11, lr}\n" \
    "ldrd r1, r2, [r0], #8\n"          \
    PAIR("r3", "r4", "r5", "r1", "r9") PAIR("r3", "r4", "r5", "r2", "r10") \
    PAIR("r6", "r7", "r8", "r1", "r11") PAIR("r6", "r7", "r8", "r2", "lr")
/* r1 r2 hold 128 * X. */
#define APART(low, high, sum, first)                \
    "subs " first ", " sum ", r1\n"                 \
    "sbc " high ", " high ", r2\n"                  \
    "subs " low ", " low ", " sum "\n"              \
    "sbc " high ", " high ", " first ", asr #31\n"  \
    "lsrs " low ", " low ", #8\n"                   \
    "orr " low ", " low ", " high ", lsl #24\n"
#define PAIRS_APART "ldrd r1, r2, [sp, #20]\n" APART("r3", "r4", "r5", "r9") APART("r6", "r7", "r8", "r10")

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

/* Sums lie in the registers from `first` to `last`, where they are those of the outputs a to d at the end; the factors of these come into `factors`. */
#define LOOP(unrolled, step_bytes, step, sums, prepare, is_last, separate, a, b, c, d, factors, fa, fb, fc, fd) \
    __asm volatile("push {r4-r11, lr}\n"                             \
                   "mov r12, r1\n"                                   \
                   "adr.w r11, 2f\n"                                 \
                   "ldmia r0, {r1-r8}\n"                             \
                   "add r3, r3, r11\n"                               \
                   "adds r3, #1\n"                                   \
                   "push {r1-r8}\n"                                  \
                   "1:\n"                                            \
                   "ldmia r12!, {" sums "}\n" prepare                \
                   "ldrd r0, lr, [sp]\n"                             \
                   "ldr pc, [sp, #8]\n"                              \
                   ".balign 4\n"                                     \
                   "2:\n" PILLION_REPEAT("2b", unrolled, step_bytes, step) is_last \
                   "bne.w 2b\n"                                      \
                   separate                                          \
                   "ldmia r12!, {" factors "}\n"                     \
                   "ldrd r0, r1, [sp, #12]\n"                        \
                   ROUND_16(SIGNED, a, fa) ROUND_16(SIGNED, b, fb) ROUND_16(SIGNED, c, fc) ROUND_16(SIGNED, d, fd) \
                   "strh " a ", [r0], #2\n"                          \
                   "strh " b ", [r0], #2\n"                          \
                   "strh " c ", [r0], #2\n"                          \
                   "strh " d ", [r0], #2\n"                          \
                   "str r0, [sp, #12]\n"                             \
                   "cmp r12, r1\n"                                   \
                   "bne.w 1b\n"                                      \
                   "add sp, sp, #32\n"                               \
                   "pop {r4-r11, pc}\n")
#define LOOP_OF_NIBBLES(step_bytes, step, prepare, separate)                                                           \
    LOOP(4, step_bytes, step, "r4-r7", prepare, "subs lr, #1\n", separate, "r4", "r5", "r6", "r7", "r8-r11", "r8", "r9", "r10", "r11")

PILLION_NAKED static void fours_of_outputs(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    LOOP(8, STEP_BYTES, STEP, "r3-r8", "", "ldr r1, [sp, #28]\n" "cmp r0, r1\n", PAIRS_APART, "r9", "r3", "r10", "r6", "r5, r8, r11, lr", "r5", "r8", "r11", "lr");
}

PILLION_NAKED static void fours_of_nibbles(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    LOOP_OF_NIBBLES(NIBBLES_BYTES, STEP_OF_NIBBLES, "", SEPARATE);
}

PILLION_NAKED static void fours_of_masked(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    LOOP_OF_NIBBLES(MASKED_BYTES, STEP_OF_MASKED, LOAD_MASK, WITHOUT_EIGHTS);
}

/* All vectors by a loop, of which a step has `inputs` inputs and so many bytes of code; a round has `unrolled` steps. */
PILLION_INLINE void vectors(const pillion_linear_s16_dsp_params *p, const int16_t *x, int16_t *y, int32_t *scratch, int32_t inputs,
                           int32_t unrolled, int32_t step_bytes, void (*fours_of)(const loop *s, const int32_t *stream)) {
    const int32_t fours = p->out_features / 4, rest = p->out_features % 4, words = (inputs == 8 ? 8 : 10) + 4 * p->steps;
    const int32_t rounds = (p->steps + unrolled - 1) / unrolled;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        int16_t last[4];
        const int16_t *const x_end = (const int16_t *)scratch + inputs * p->steps;
        loop s = {(const int16_t *)scratch, rounds, (uint32_t)((rounds * unrolled - p->steps) * step_bytes), y, p->stream + fours * words, 0, 0, x_end};
        memset((int16_t *)scratch + p->in_features, 0, (size_t)(2 * inputs * p->steps - 2 * p->in_features));
        memcpy(scratch, x, 2 * (size_t)p->in_features);
        if (inputs == 8) {
            s.sum = pillion_dsp_sum_words(scratch, 2 * p->steps, 8);
        } else {
            const int64_t sum = (int64_t)pillion_dsp_sum_words(scratch, p->steps, 1) * 128;
            s.sum = (int32_t)(uint32_t)sum, s.sum_high = (int32_t)(sum >> 32);
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

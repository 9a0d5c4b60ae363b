/* SPDX-License-Identifier: Apache-2.0
 * Fully connected with weights of four bits: one row of inputs times four output channels at a time. A halfword holds the weights of one input,
 * h = 4096 * D + 256 * (C + 8) + 16 * (B + 8) + (A + 8), and a word those of two. With X = sum(x) and the sum S of each channel, sums are
 *   T of halfwords, V = 16 * S_B + S_A + 136 * X of their low bytes, U = S_A + 8 * X of the low four bits, W = 256 * (S_C + 8 * X) of bits 8 to 11,
 * so that T - V - W = 4096 * S_D, and three of four products need a mask: eight inputs take 31 instructions for 32 products.
 * A round is four steps of eight inputs; where four are left over, they come first. Then the next jump of the list is taken.
 * Registers: r0 inputs, r12 weights, lr the list of jumps; r1 r2 inputs, r3-r6 weights, r11 weights that are masked; r7-r10 T, V, W, U. Of the
 * results: r0 16 * X, r1-r4 rounds and multipliers, r5 shifts, r11 y. On the stack: start of the inputs, list of jumps, 16 * X, y, a part sum of D.
 *
 * The stream holds, for the channels A, B, C, D of each group:
 *   T, V, W, U of the biases, {words of inputs 0 and 2, 1 and 3 of every four} x steps, and the constants of linear_s8_dsp.c,
 * LiteRT's layers take the sums alone, as in linear_s8_dsp.c;
 * and then, of each channel that is left: twice the bias, round, multiplier, words of eight inputs: four bits of weights + 8, of inputs 0 1 4 5 2 3 6 7. */
#include "pillion/assembly.h"
#include "pillion/once.h"
#include "dot.h"
#include "linear.h"
#include "smmlar.h"

#if PILLION_HAS_DSP

/* What the inner loop keeps on its stack; the offsets are in its text. */
typedef struct {
    const int32_t *x;      /* 0 */
    const uint32_t *jumps; /* 4: where it goes on after each round */
    int32_t sum;           /* 8: 16 times the sum of the inputs */
    int8_t *y;             /* 12 */
} group_loop;
PILLION_FIELDS_AT(group_loop, 0, x, jumps, sum, y);

#define FOURS_OF_ROUND 8
#define UNROLLED 4 /* steps to a round */
#define STEP_BYTES 124

#define PRODUCTS(x, w)             \
    "uxtb16 r11, " w "\n"          \
    "smlad r7, " x ", " w ", r7\n" \
    "and " w ", " w ", #0x0f000f00\n" \
    "smlad r8, " x ", r11, r8\n"   \
    "and r11, r11, #0x000f000f\n"  \
    "smlad r9, " x ", " w ", r9\n" \
    "smlad r10, " x ", r11, r10\n"
#define FOUR(w0, w1) "ldmia.w r0!, {r1, r2}\n" PRODUCTS("r1", w0) PRODUCTS("r2", w1)
#define STEP "ldmia.w r12!, {r3-r6}\n" FOUR("r3", "r4") FOUR("r5", "r6")

/* Twice the sums of three channels. */
#define SEPARATE                   \
    "ldr r0, [sp, #8]\n"           \
    "sub r8, r8, r10\n"            \
    "rsb r8, r0, r8, asr #3\n"     \
    "rsb r9, r0, r9, asr #7\n"     \
    "rsb r10, r0, r10, lsl #1\n"   \
    "ldr r11, [sp, #12]\n"
#define ONLY_D "sub r7, r7, r8\n" "sub r7, r7, r9\n"
#define RESULTS(requantize)                                \
    SEPARATE GROUP_RESULTS(requantize, "r8", "r10", "r7", "r9") \
    "str r11, [sp, #12]\n"                                 \
    "bpl.w 1b\n"

#define PLACE(name) ".global pillion_dsp_linear_" name "\n" "pillion_dsp_linear_" name ":\n"
#define GO_ON "ldr pc, [lr], #4\n"
extern const uint8_t pillion_dsp_linear_steps_4[], pillion_dsp_linear_half_4[], pillion_dsp_linear_requantize_4[],
    pillion_dsp_linear_rectify_4[], pillion_dsp_linear_first_part_4[], pillion_dsp_linear_next_part_4[], pillion_dsp_linear_join_4[],
    pillion_dsp_linear_sums_4[], pillion_dsp_linear_join_sums_4[];

PILLION_NAKED static const int32_t *groups_of_channels(PILLION_UNUSED const group_loop *loop, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r1-r4}\n"
                   "sub sp, sp, #4\n"
                   "push {r1-r4}\n"
                   "1:\n"
                   "ldmia r12!, {r7-r10}\n"
                   "ldrd r0, lr, [sp]\n" GO_ON
                   ".balign 4\n" PLACE("steps_4")
                   PILLION_REPEAT("pillion_dsp_linear_steps_4", UNROLLED, STEP_BYTES, STEP) GO_ON
                   PLACE("half_4")
                   "ldmia r12!, {r3, r4}\n" FOUR("r3", "r4") GO_ON
                   PLACE("first_part_4")
                   "mov r1, #0\n"
                   "str r1, [sp, #16]\n" GO_ON
                   PLACE("next_part_4")
                   "ldr r1, [sp, #16]\n" ONLY_D
                   "add r1, r1, r7, asr #12\n"
                   "add r7, r8, r9\n"
                   "str r1, [sp, #16]\n" GO_ON
                   PLACE("join_4")
                   "ldr r1, [sp, #16]\n" ONLY_D
                   "asr r7, r7, #11\n"
                   "add r7, r7, r1, lsl #1\n"
                   "b 2f\n"
                   PLACE("requantize_4") ONLY_D
                   "asr r7, r7, #11\n"
                   "2:\n" RESULTS(REQUANTIZE)
                   "4:\n"
                   "mov r0, r12\n"
                   "add sp, sp, #20\n"
                   "pop {r4-r11, pc}\n"
                   PLACE("rectify_4") ONLY_D
                   "asr r7, r7, #11\n" RESULTS(REQUANTIZE_RECTIFIED)
                   "b 4b\n"
                   PLACE("join_sums_4")
                   "ldr r1, [sp, #16]\n" ONLY_D
                   "asr r7, r7, #11\n"
                   "add r7, r7, r1, lsl #1\n"
                   "b 3f\n"
                   PLACE("sums_4") ONLY_D
                   "asr r7, r7, #11\n"
                   "3:\n" SEPARATE
                   "asr r7, r7, #1\n"
                   "asr r8, r8, #1\n"
                   "asr r9, r9, #1\n"
                   "asr r10, r10, #1\n"
                   "strd r10, r8, [r11], #8\n"
                   "strd r9, r7, [r11], #8\n"
                   "str r11, [sp, #12]\n"
                   "ldr r5, [r12, #16]\n" /* of the constants that are not wanted here, the sign ends the run */
                   "add r12, r12, #36\n"
                   "cmp r5, #0\n"
                   "bpl.w 1b\n"
                   "b 4b\n");
}

/* What both kernels have in their params. */
typedef struct {
    PILLION_LINEAR_FIELDS
} layer;
PILLION_BEGINS_WITH(pillion_linear_s4_dsp_params, layer, rectified);
PILLION_BEGINS_WITH(pillion_linear_tflite_s4_dsp_params, layer, once);

/* Where the loop goes on after each round; all rounds after the first are whole ones. */
static void list_jumps(const layer *p, uint32_t *jump, const uint8_t *whole, const uint8_t *join) {
    int32_t fours = (p->steps - 1) % FOURS_OF_ROUND + 1;
    if (p->part_rounds > 0) {
        *jump++ = pillion_thumb(pillion_dsp_linear_first_part_4);
    }
    for (int32_t round = 0, left = p->steps; left > 0; round++, left -= fours, fours = FOURS_OF_ROUND) {
        if (p->part_rounds > 0 && round > 0 && round % p->part_rounds == 0) {
            *jump++ = pillion_thumb(pillion_dsp_linear_next_part_4);
        }
        if (fours % 2 != 0) {
            *jump++ = pillion_thumb(pillion_dsp_linear_half_4);
        }
        if (fours > 1) {
            *jump++ = pillion_thumb(pillion_dsp_linear_steps_4 + (UNROLLED - fours / 2) * STEP_BYTES);
        }
    }
    *jump = pillion_thumb(p->part_rounds > 0 ? join : whole);
}

/* Twice the products of a channel with words of eight weights + 8. */
static int32_t twice_products(const int32_t *x, const int32_t *weights, int32_t eights) {
    int32_t sum = 0, sum_16 = 0, first, second, word, part;
    __asm volatile("1:\n"
                   "ldr %[word], [%[weights]], #4\n"
                   "ldrd %[first], %[second], [%[x]], #8\n"
                   "and %[part], %[word], #0x000f000f\n"
                   "smlad %[sum], %[first], %[part], %[sum]\n"
                   "and %[part], %[word], #0x00f000f0\n"
                   "smlad %[sum_16], %[second], %[part], %[sum_16]\n"
                   "uxtb16 %[word], %[word], ror #8\n"
                   "ldrd %[first], %[second], [%[x]], #8\n"
                   "and %[part], %[word], #0x000f000f\n"
                   "smlad %[sum], %[first], %[part], %[sum]\n"
                   "and %[part], %[word], #0x00f000f0\n"
                   "smlad %[sum_16], %[second], %[part], %[sum_16]\n"
                   "subs %[eights], #1\n"
                   "bne 1b\n"
                   : [sum] "+r"(sum), [sum_16] "+r"(sum_16), [x] "+r"(x), [weights] "+r"(weights), [eights] "+r"(eights),
                     [first] "=&r"(first), [second] "=&r"(second), [word] "=&r"(word), [part] "=&r"(part)
                   :
                   : "cc", "memory");
    return 2 * sum + (sum_16 >> 3);
}

void pillion_linear_s4_dsp(const pillion_linear_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t eights = (p->steps + 1) >> 1;
    int32_t *const row = scratch, *const last = row + 4 * eights - 2;
    group_loop loop = {row, (const uint32_t *)(row + 4 * eights), 0, y};
    list_jumps((const layer *)(const void *)p, (uint32_t *)(row + 4 * eights),
               p->rectified != 0 ? pillion_dsp_linear_rectify_4 : pillion_dsp_linear_requantize_4, pillion_dsp_linear_join_4);
    for (int32_t n = 0; n < p->rows; n++, x += p->in_features, y += p->out_features) {
        last[0] = 0, last[1] = 0;
        pillion_dsp_widen_row(x, p->in_features, row);
        loop.sum = pillion_dsp_sum_words(row, p->steps, 16);
        const int32_t *stream = p->stream;
        for (int32_t run = 0; run < p->run_count; run++) {
            loop.y = y + p->runs[run];
            stream = groups_of_channels(&loop, stream);
        }
        uint32_t rights = (uint32_t)p->rest_rights;
        for (int32_t left = p->rest; left > 0; left--, rights >>= 8, stream += 3 + eights) {
            const int32_t twice = stream[0] + twice_products(row, stream + 3, eights) - loop.sum;
            y[p->out_features - left] = (int8_t)pillion_dsp_requantize(twice, stream[1], stream[2], rights & 0xff);
        }
    }
    const int32_t count = p->rows * p->out_features;
    pillion_dsp_clamp(y - count, count, p->low, p->high);
}

void pillion_linear_tflite_s4_dsp(const pillion_linear_tflite_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t eights = (p->steps + 1) >> 1, out_features = p->out_features;
    int32_t *const sums = scratch, *const row = sums + out_features, *const last = row + 4 * eights - 2;
    group_loop loop = {row, (const uint32_t *)(row + 4 * eights), 0, y};
    list_jumps((const layer *)(const void *)p, (uint32_t *)(row + 4 * eights), pillion_dsp_linear_sums_4,
               pillion_dsp_linear_join_sums_4);
    for (int32_t n = 0; n < p->rows; n++, x += p->in_features, y += out_features) {
        last[0] = 0, last[1] = 0;
        pillion_dsp_widen_row(x, p->in_features, row);
        loop.sum = pillion_dsp_sum_words(row, p->steps, 16);
        const int32_t *stream = p->stream;
        for (int32_t run = 0; run < p->run_count; run++) {
            loop.y = (int8_t *)(sums + p->runs[run]);
            stream = groups_of_channels(&loop, stream);
        }
        for (int32_t left = p->rest; left > 0; left--, stream += 3 + eights) {
            sums[out_features - left] = (stream[0] + twice_products(row, stream + 3, eights) - loop.sum) >> 1;
        }
        pillion_round_once(sums, p->once, out_features, p->low, p->high, y);
    }
}
#endif

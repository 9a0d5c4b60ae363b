/* SPDX-License-Identifier: Apache-2.0
 * Fully connected: one row of inputs times four output channels at a time, two pairs packed as in dot_dsp.c. Four inputs
 * take 14 instructions for 16 products. The row is widened once: words of inputs 0 and 2, 1 and 3 of every four. Up to
 * three channels that are left come one at a time. A round is eight steps of four inputs; then the next jump of the list is
 * taken.
 * Registers: r0 inputs, r12 weights, lr the list of jumps, r11 y; r1 r2 inputs, r3-r6 weights, r7 r8 T and S_A of the first
 * pair, r9 r10 of the second. Of the results: r1-r4 rounds and multipliers, r5 shifts. On the stack: start of the inputs, list
 * of jumps, two part sums.
 *
 * LiteRT's layers, which are scaled in another way, take the sums alone; the constants for the other way are skipped.
 *
 * The stream holds, for the channels A, B, C, D of each group:
 *   c_A + 256 * c_B, c_A, c_C + 256 * c_D, c_C, {the words of A and B, the words of C and D} x steps,
 *   round and multiplier of B and of A, their right shifts as bytes B A D C, negative if it ends a run, round and multiplier of D and of C
 * and then, of each channel that is left: c, round, multiplier, weights. */
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
} group_loop;
PILLION_FIELDS_AT(group_loop, 0, x, jumps);

#define UNROLLED 8 /* steps to a round */
#define STEP_BYTES 56

/* r0 x, r12 weights; r1 r2 inputs, r3-r6 weights, r7-r10 T and S of both pairs. STEP_BYTES long. */
#define STEP                     \
    "ldmia.w r0!, {r1, r2}\n"    \
    "ldmia.w r12!, {r3-r6}\n"    \
    "smlad r7, r1, r3, r7\n"     \
    "smlad r9, r1, r5, r9\n"     \
    "sxtb16 r3, r3\n"            \
    "sxtb16 r5, r5\n"            \
    "smlad r8, r1, r3, r8\n"     \
    "smlad r10, r1, r5, r10\n"   \
    "smlad r7, r2, r4, r7\n"     \
    "smlad r9, r2, r6, r9\n"     \
    "sxtb16 r4, r4\n"            \
    "sxtb16 r6, r6\n"            \
    "smlad r8, r2, r4, r8\n"     \
    "smlad r10, r2, r6, r10\n"

#define TWICE_B(t, s) "sub " t ", " t ", " s "\n" "asr " t ", " t ", #7\n"
#define ONLY_B(t, s) "sub " t ", " t ", " s "\n" "asr " t ", " t ", #8\n"
#define DOUBLE "add r8, r8, r8\n" "add r10, r10, r10\n"
#define SET_ASIDE(place, t, s)                  \
    "sub " t ", " t ", " s "\n"                 \
    "add " place ", " place ", " t ", asr #8\n" \
    "mov " t ", " s "\n"

#define PLACE(name) ".global pillion_dsp_linear_" name "\n" "pillion_dsp_linear_" name ":\n"
#define GO_ON "ldr pc, [lr], #4\n"
extern const uint8_t pillion_dsp_linear_steps[], pillion_dsp_linear_requantize[], pillion_dsp_linear_rectify[],
    pillion_dsp_linear_first_part[], pillion_dsp_linear_next_part[], pillion_dsp_linear_join[], pillion_dsp_linear_sums[], pillion_dsp_linear_join_sums[];

/* As in dot_dsp.c, lr walks through the addresses at which the loop goes on. */
PILLION_NAKED static const int32_t *groups_of_channels(PILLION_UNUSED const group_loop *loop, PILLION_UNUSED const int32_t *stream,
                                                      PILLION_UNUSED void *y) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "mov r11, r2\n"
                   "ldmia r0, {r1, r2}\n"
                   "sub sp, sp, #8\n"
                   "push {r1, r2}\n"
                   "1:\n"
                   "ldmia r12!, {r7-r10}\n"
                   "ldrd r0, lr, [sp]\n" GO_ON
                   ".balign 4\n" PLACE("steps")
                   PILLION_REPEAT("pillion_dsp_linear_steps", UNROLLED, STEP_BYTES, STEP) GO_ON
                   PLACE("first_part")
                   "mov r1, #0\n"
                   "strd r1, r1, [sp, #8]\n" GO_ON
                   PLACE("next_part")
                   "ldrd r1, r2, [sp, #8]\n" SET_ASIDE("r1", "r7", "r8") SET_ASIDE("r2", "r9", "r10")
                   "strd r1, r2, [sp, #8]\n" GO_ON
                   PLACE("join")
                   "ldrd r1, r2, [sp, #8]\n" TWICE_B("r7", "r8") TWICE_B("r9", "r10")
                   "add r7, r7, r1, lsl #1\n"
                   "add r9, r9, r2, lsl #1\n"
                   "b 2f\n"
                   PLACE("requantize") TWICE_B("r7", "r8") TWICE_B("r9", "r10")
                   "2:\n"
                   DOUBLE GROUP(REQUANTIZE, "r7", "r8", "r9", "r10")
                   "4:\n"
                   "mov r0, r12\n"
                   "add sp, sp, #16\n"
                   "pop {r4-r11, pc}\n"
                   PLACE("rectify") TWICE_B("r7", "r8") TWICE_B("r9", "r10") DOUBLE GROUP(REQUANTIZE_RECTIFIED, "r7", "r8", "r9", "r10")
                   "b 4b\n"
                   PLACE("join_sums")
                   "ldrd r1, r2, [sp, #8]\n" ONLY_B("r7", "r8") ONLY_B("r9", "r10")
                   "add r7, r7, r1\n"
                   "add r9, r9, r2\n"
                   "b 3f\n"
                   PLACE("sums") ONLY_B("r7", "r8") ONLY_B("r9", "r10")
                   "3:\n"
                   "strd r8, r7, [r11], #8\n"
                   "strd r10, r9, [r11], #8\n"
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
PILLION_BEGINS_WITH(pillion_linear_s8_dsp_params, layer, rectified);
PILLION_BEGINS_WITH(pillion_linear_tflite_s8_dsp_params, layer, once);

static void list_jumps(const layer *p, uint32_t *jump, const uint8_t *whole, const uint8_t *join) {
    int32_t steps = (p->steps - 1) % UNROLLED + 1; /* all rounds after the first are whole ones */
    if (p->part_rounds > 0) {
        *jump++ = pillion_thumb(pillion_dsp_linear_first_part);
    }
    for (int32_t round = 0, left = p->steps; left > 0; round++, left -= steps, steps = UNROLLED) {
        if (p->part_rounds > 0 && round > 0 && round % p->part_rounds == 0) {
            *jump++ = pillion_thumb(pillion_dsp_linear_next_part);
        }
        *jump++ = pillion_thumb(pillion_dsp_linear_steps + (UNROLLED - steps) * STEP_BYTES);
    }
    *jump = pillion_thumb(p->part_rounds > 0 ? join : whole);
}

static void repeat_inputs(const layer *p, int32_t *row) {
    int16_t *const halves = (int16_t *)row;
    for (int32_t i = 0; i < p->repeat_count; i++) {
        halves[p->repeats[2 * i + 1]] = halves[p->repeats[2 * i]];
    }
}

/* sum + the products of a channel with words of four weights. */
static int32_t add_products(int32_t sum, const int32_t *x, const int32_t *weights, int32_t fours) {
    int32_t first, second, even, odd;
    __asm volatile(
        "1:\n"
        "ldr %[odd], [%[weights]], #4\n"
        "ldrd %[first], %[second], [%[x]], #8\n"
        "sxtb16 %[even], %[odd]\n"
        "sxtb16 %[odd], %[odd], ror #8\n"
        "smlad %[sum], %[first], %[even], %[sum]\n"
        "smlad %[sum], %[second], %[odd], %[sum]\n"
        "subs %[fours], #1\n"
        "bne 1b\n"
        : [sum] "+r"(sum), [x] "+r"(x), [weights] "+r"(weights), [fours] "+r"(fours), [first] "=&r"(first),
          [second] "=&r"(second), [even] "=&r"(even), [odd] "=&r"(odd)
        :
        : "cc", "memory");
    return sum;
}

static __attribute__((noinline)) void rest_of_channels(const pillion_linear_s8_dsp_params *p, const int32_t *x, const int32_t *stream, int8_t *y) {
    const int32_t fours = (p->in_features + 3) >> 2;
    uint32_t rights = (uint32_t)p->rest_rights;
    for (int32_t left = p->rest; left > 0; left--, rights >>= 8, stream += 3 + fours) {
        const int32_t sum = add_products(stream[0], x, stream + 3, fours);
        *y++ = (int8_t)pillion_dsp_requantize(2 * sum, stream[1], stream[2], rights & 0xff);
    }
}

void pillion_linear_s8_dsp(const pillion_linear_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const uint16_t *const runs_end = p->runs + p->run_count;
    int32_t *const row = scratch;
    uint32_t *const jumps = (uint32_t *)(row + 2 * p->steps);
    const layer *const l = (const layer *)(const void *)p;
    list_jumps(l, jumps, p->rectified != 0 ? pillion_dsp_linear_rectify : pillion_dsp_linear_requantize, pillion_dsp_linear_join);
    const group_loop loop = {row, jumps};
    for (int32_t n = 0; n < p->rows; n++, x += p->in_features, y += p->out_features) {
        pillion_dsp_widen_row(x, p->in_features, row);
        repeat_inputs(l, row);
        const int32_t *stream = p->stream;
        for (const uint16_t *run = p->runs; run < runs_end; run++) {
            stream = groups_of_channels(&loop, stream, y + *run);
        }
        if (p->rest > 0) {
            rest_of_channels(p, row, stream, y + p->out_features - p->rest);
        }
    }
    const int32_t count = p->rows * p->out_features;
    pillion_dsp_clamp(y - count, count, p->low, p->high);
}

void pillion_linear_tflite_s8_dsp(const pillion_linear_tflite_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t fours = (p->in_features + 3) >> 2, out_features = p->out_features;
    int32_t *const sums = scratch, *const row = sums + out_features;
    uint32_t *const jumps = (uint32_t *)(row + 2 * p->steps);
    const layer *const l = (const layer *)(const void *)p;
    list_jumps(l, jumps, pillion_dsp_linear_sums, pillion_dsp_linear_join_sums);
    const group_loop loop = {row, jumps};
    for (int32_t n = 0; n < p->rows; n++, x += p->in_features, y += out_features) {
        pillion_dsp_widen_row(x, p->in_features, row);
        repeat_inputs(l, row);
        const int32_t *stream = p->stream;
        for (int32_t i = 0; i < p->run_count; i++) {
            stream = groups_of_channels(&loop, stream, sums + p->runs[i]);
        }
        for (int32_t channel = out_features - p->rest; channel < out_features; channel++, stream += 3 + fours) {
            sums[channel] = add_products(stream[0], row, stream + 3, fours);
        }
        pillion_round_once(sums, p->once, out_features, p->low, p->high, y);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Fully connected: one row of inputs times four output channels at a time, two pairs packed as in dot_dsp.c. Four inputs
 * take 14 instructions for 16 products. The row is widened once: words of inputs 0 and 2, 1 and 3 of every four.
 *
 * The stream holds, for the channels A, B, C, D of each group:
 *   c_A + 256 * c_B, c_A, c_C + 256 * c_D, c_C, {the words of A and B, the words of C and D} x steps,
 *   round and multiplier of B and of A, their right shifts as bytes B A D C, round and multiplier of D and of C */
#include "asm_function.h"
#include "dot.h"

#include <string.h>

#if PILLION_HAS_DSP

/* What the inner loop keeps on its stack; the offsets are in its text. */
typedef struct {
    const int32_t *x;   /*  0 */
    uint32_t rounds;    /*  4: of the loop, UNROLLED steps each */
    uint32_t skip;      /*  8: steps of its first round that are left out; then the address that does so */
    const int32_t *end; /* 12: of the stream */
} group_loop;

#define UNROLLED 8u /* the .rept below */

/* r0 x, r12 weights; r1 r2 inputs, r3-r6 weights, r7-r10 T and S of both pairs. Always 56 bytes long. */
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

/* r1 round, r2 multiplier of the second channel, r3 r4 of the first, r5 right shifts of both and what follows. */
#define REQUANTIZE(s, round, multiplier)        \
    "add r6, " round ", " s ", asr #31\n"       \
    "smmlar " s ", " s ", " multiplier ", r6\n" \
    "asr " s ", " s ", r5\n"                    \
    "ssat " s ", #8, " s "\n"                   \
    "lsr r5, r5, #8\n"
#define PAIR(t, s)                              \
    "sub " t ", " t ", " s "\n"                 \
    "asr " t ", " t ", #7\n"                    \
    REQUANTIZE(t, "r1", "r2")                   \
    "add " s ", " s ", " s "\n"                 \
    REQUANTIZE(s, "r3", "r4")                   \
    "strb " t ", [r11, #1]\n"                   \
    "strb " s ", [r11], #2\n"

ASM_FUNCTION static const int32_t *groups_of_channels(UNUSED const group_loop *loop, UNUSED const int32_t *stream,
                                                      UNUSED int8_t *y) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "mov r11, r2\n"
                   "ldmia r0, {r1-r4}\n"
                   "adr r0, 2f\n"
                   "mov r5, #56\n"
                   "mla r3, r3, r5, r0\n"
                   "orr r3, r3, #1\n"
                   "push {r1-r4}\n"
                   "1:\n"
                   "ldmia r12!, {r7-r10}\n"
                   "ldrd r0, lr, [sp]\n"
                   "ldr pc, [sp, #8]\n"
                   ".balign 4\n"
                   "2:\n"
                   ".rept 8\n" STEP ".endr\n"
                   "subs lr, lr, #1\n"
                   "bne.w 2b\n"
                   "ldmia r12!, {r1-r5}\n" PAIR("r7", "r8")
                   "ldmia r12!, {r1-r4}\n" PAIR("r9", "r10")
                   "ldr r0, [sp, #12]\n"
                   "cmp r12, r0\n"
                   "bne.w 1b\n"
                   "mov r0, r12\n"
                   "add sp, sp, #16\n"
                   "pop {r4-r11, pc}\n");
}

static inline void widen_four(int32_t *to, uint32_t four) {
    __asm("sxtb16 %0, %1" : "=r"(to[0]) : "r"(four));
    __asm("sxtb16 %0, %1, ror #8" : "=r"(to[1]) : "r"(four));
}

static void widen(const pillion_linear_s8_dsp_params *p, const int8_t *x, int32_t *to) {
    int32_t left = p->in_features;
    uint32_t four = 0;
    int32_t *next = to;
    for (; left >= 4; left -= 4, x += 4, next += 2) {
        memcpy(&four, x, 4);
        widen_four(next, four);
    }
    if (left > 0) {
        for (int32_t i = 0; i < left; i++) {
            four = four << 8 | (uint8_t)x[left - 1 - i];
        }
        widen_four(next, four);
    }
    int16_t *const halves = (int16_t *)to;
    for (int32_t i = 0; i < p->repeat_count; i++) {
        halves[p->repeats[2 * i + 1]] = halves[p->repeats[2 * i]];
    }
}

void pillion_linear_s8_dsp(const pillion_linear_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const uint32_t rounds = ((uint32_t)p->steps + UNROLLED - 1) / UNROLLED;
    const int32_t group_words = 13 + 4 * p->steps;
    const uint16_t *const runs_end = p->runs + 2 * p->run_count;
    group_loop loop = {scratch, rounds, rounds * UNROLLED - (uint32_t)p->steps, 0};
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        widen(p, x, scratch);
        const int32_t *stream = p->stream;
        for (const uint16_t *run = p->runs; run < runs_end; run += 2) {
            loop.end = stream + run[1] * group_words;
            stream = groups_of_channels(&loop, stream, y + run[0]);
        }
        if (p->rest > 0) {
            int8_t last[4];
            loop.end = stream + group_words;
            groups_of_channels(&loop, stream, last);
            for (int32_t i = 0; i < p->rest; i++) {
                y[p->out_features - p->rest + i] = last[i];
            }
        }
    }
    const int32_t count = p->rows * p->out_features;
    pillion_dsp_clamp(y - count, count, p->low, p->high);
}
#endif

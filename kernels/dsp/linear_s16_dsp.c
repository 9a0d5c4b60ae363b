/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits: one vector of inputs by four outputs at a time; a step takes four inputs: 18 instructions for 16 products.
 * Registers: r0 inputs, r1 r2 inputs of a step, r3 weights, r4-r7 sums, r8-r11 weights of the outputs, r12 the stream: of each four outputs
 * bias, weights, factors; lr rounds left. */
#include "dot16.h"

#include <string.h>

#if PILLION_HAS_DSP

#define UNROLLED 8
#define STEP_BYTES 72

/* What the loop keeps on its stack. */
typedef struct {
    const int16_t *x;
    int32_t rounds;
    uint32_t entry; /* 8: steps that the first round skips, in bytes */
    int16_t *y;     /* 12 */
    const int32_t *stream_end;
} loop;
PILLION_FIELDS_AT(loop, 0, x, rounds, entry, y, stream_end);

#define OUTPUT(sum, w)                 \
    "sxtb16 r3, " w "\n"               \
    "smlad " sum ", r1, r3, " sum "\n" \
    "sxtb16 " w ", " w ", ror #8\n"    \
    "smlad " sum ", r2, " w ", " sum "\n"
#define STEP                           \
    "ldmia r12!, {r8, r9, r10, r11}\n" \
    "ldrd r1, r2, [r0], #8\n" OUTPUT("r4", "r8") OUTPUT("r5", "r9") OUTPUT("r6", "r10") OUTPUT("r7", "r11")

PILLION_NAKED static void fours_of_outputs(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "adr.w r11, 2f\n"
                   "ldmia r0, {r1-r5}\n"
                   "add r3, r3, r11\n"
                   "adds r3, #1\n"
                   "push {r1-r5}\n"
                   "1:\n"
                   "ldmia r12!, {r4-r7}\n"
                   "ldrd r0, lr, [sp]\n"
                   "ldr pc, [sp, #8]\n"
                   ".balign 4\n"
                   "2:\n" PILLION_REPEAT("2b", UNROLLED, STEP_BYTES, STEP)
                   "subs lr, #1\n"
                   "bne.w 2b\n"
                   "ldmia r12!, {r8-r11}\n"
                   "ldrd r0, r1, [sp, #12]\n"
                   ROUND_16(SIGNED, "r4", "r8") ROUND_16(SIGNED, "r5", "r9") ROUND_16(SIGNED, "r6", "r10") ROUND_16(SIGNED, "r7", "r11")
                   "strh r4, [r0], #2\n"
                   "strh r5, [r0], #2\n"
                   "strh r6, [r0], #2\n"
                   "strh r7, [r0], #2\n"
                   "str r0, [sp, #12]\n"
                   "cmp r12, r1\n"
                   "bne.w 1b\n"
                   "add sp, sp, #20\n"
                   "pop {r4-r11, pc}\n");
}

void pillion_linear_s16_dsp(const pillion_linear_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t fours = p->out_features / 4, rest = p->out_features % 4, words = 8 + 4 * p->steps;
    const int32_t rounds = (p->steps + UNROLLED - 1) / UNROLLED;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        int16_t last[4];
        loop s = {scratch, rounds, (uint32_t)((rounds * UNROLLED - p->steps) * STEP_BYTES), y, p->stream + fours * words};
        memset((int16_t *)scratch + p->in_features, 0, (size_t)(8 * p->steps - 2 * p->in_features));
        memcpy(scratch, x, 2 * (size_t)p->in_features);
        if (fours > 0) {
            fours_of_outputs(&s, p->stream);
        }
        if (rest > 0) { /* four outputs, the surplus of which is nothing */
            s.y = last, s.stream_end += words;
            fours_of_outputs(&s, p->stream + fours * words);
            memcpy(y + 4 * fours, last, 2 * (size_t)rest);
        }
        pillion_dsp_clamp_16(y, p->out_features, p->low, p->high);
    }
}
#endif

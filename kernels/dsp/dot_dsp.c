/* SPDX-License-Identifier: Apache-2.0
 * The dot products of all convolutions: three pixels times two output channels at a time.
 *
 * Two weights lie in a halfword (README.md), A and B being the channels of a pair. A step takes four inputs: 17 instructions
 * for 24 products. Eight steps are a round, after which the next jump of the list is taken; then the six sums become results.
 * Registers of the sums: r0 inputs, r12 weights, lr the list of jumps; r1-r3 inputs of the three pixels, r4 r5 weights,
 * r6-r8 T and r9-r11 S_A of the pixels. Of the results: r1-r4 round and multiplier of B and of A, r5 the shifts. On the stack:
 * places of y, start of the inputs, list of jumps, three part sums. */
#include "pillion/assembly.h"
#include "dot_asm.h"

#if PILLION_HAS_DSP

PILLION_AT(pillion_dsp_pair_loop, y, 0);
PILLION_FIELDS_AT(pillion_dsp_pair_loop, 12, x, jumps);

#define UNROLLED 8 /* steps to a round */
#define STEP_BYTES 64

/* One step: r0 x, r12 weights; r1-r3 inputs of three pixels, r4 r5 weights, r6-r8 T, r9-r11 S_A. The first step of a
 * pair adds to the constants in r8 and r11 instead. STEP_BYTES long. */
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

#define REQUANTIZE_RECTIFIED(s, round, multiplier)        \
    "smmlar " s ", " s ", " multiplier ", " round "\n"    \
    "asr " s ", " s ", r5\n"                              \
    "ssat " s ", #8, " s "\n"
#define CHANNELS_B(requantize) \
    CHANNEL_B(requantize, "r6", "r9") CHANNEL_B(requantize, "r7", "r10") CHANNEL_B(requantize, "r8", "r11")
#define CHANNELS_A(requantize) /* the sign of r5 ends the run; no flag changes until then */ \
    "asrs r5, r5, #8\n" CHANNEL_A(requantize, "r9") CHANNEL_A(requantize, "r10") CHANNEL_A(requantize, "r11")

/* Part sums: S_B of what came before is added to one of three places on the stack, and T starts again at S_A. */
#define SET_ASIDE(place, t, s)              \
    "sub " t ", " t ", " s "\n"             \
    "add " place ", " place ", " t ", asr #8\n" \
    "mov " t ", " s "\n"
#define JOINED_B(offset, t, s)              \
    "sub " t ", " t ", " s "\n"             \
    "asr " t ", " t ", #7\n"                \
    "ldr r0, [sp, " offset "]\n"            \
    "add " t ", " t ", r0, lsl #1\n" REQUANTIZE(t, "r1", "r2")

#define GO_ON "ldr pc, [lr], #4\n"
extern const uint8_t pillion_dsp_dot_steps[], pillion_dsp_dot_requantize[], pillion_dsp_dot_rectify[],
    pillion_dsp_dot_first_part[], pillion_dsp_dot_next_part[], pillion_dsp_dot_join[];

/* Register by register because all fourteen are taken: the loop's own state lives on the stack, and lr walks through
 * the addresses at which the loop goes on: into the steps of the first round, back to them for each of the others, and
 * at last to a requantization. Where a whole S_B could pass 2^23, the sums are set aside now and then. */
PILLION_NAKED static const int32_t *pairs_of_channels(PILLION_UNUSED const pillion_dsp_pair_loop *loop, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r1-r5}\n"
                   "sub sp, sp, #12\n"
                   "push {r1-r5}\n"
                   "1:\n"
                   "ldrd r8, r11, [r12], #8\n"
                   "ldrd r0, lr, [sp, #12]\n" FIRST_STEP /* sets all six sums */
                   GO_ON
                   ".balign 4\n" PLACE("steps")
                   PILLION_REPEAT("pillion_dsp_dot_steps", UNROLLED, STEP_BYTES, NEXT_STEP) GO_ON
                   PLACE("first_part")
                   "mov r1, #0\n"
                   "strd r1, r1, [sp, #20]\n"
                   "str r1, [sp, #28]\n" GO_ON
                   PLACE("next_part")
                   "ldrd r1, r2, [sp, #20]\n"
                   "ldr r3, [sp, #28]\n" SET_ASIDE("r1", "r6", "r9") SET_ASIDE("r2", "r7", "r10") SET_ASIDE("r3", "r8", "r11")
                   "strd r1, r2, [sp, #20]\n"
                   "str r3, [sp, #28]\n" GO_ON
                   PLACE("join")
                   "ldmia r12!, {r1-r5}\n" /* the constants */
                   JOINED_B("#20", "r6", "r9") JOINED_B("#24", "r7", "r10") JOINED_B("#28", "r8", "r11")
                   "b 2f\n"
                   PLACE("requantize")
                   "ldmia r12!, {r1-r5}\n" CHANNELS_B(REQUANTIZE)
                   "2:\n" CHANNELS_A(REQUANTIZE)
                   "b 3f\n"
                   PLACE("rectify")
                   "ldmia r12!, {r1-r5}\n" CHANNELS_B(REQUANTIZE_RECTIFIED) CHANNELS_A(REQUANTIZE_RECTIFIED)
                   "3:\n"
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

static uint32_t *list_jumps(const pillion_dsp_dot *dot, uint32_t *jump) {
    int32_t looped = dot->steps - 1;
    int32_t first = looped > 0 ? (looped - 1) % UNROLLED + 1 : 0; /* all rounds after the first are whole ones */
    if (dot->part_rounds > 0) {
        *jump++ = pillion_thumb(pillion_dsp_dot_first_part);
    }
    for (int32_t round = 0; looped > 0; round++, looped -= first, first = UNROLLED) {
        if (dot->part_rounds > 0 && round > 0 && round % dot->part_rounds == 0) {
            *jump++ = pillion_thumb(pillion_dsp_dot_next_part);
        }
        *jump++ = pillion_thumb(pillion_dsp_dot_steps + (UNROLLED - first) * STEP_BYTES);
    }
    const uint8_t *const whole = dot->rectified != 0 ? pillion_dsp_dot_rectify : pillion_dsp_dot_requantize;
    *jump++ = pillion_thumb(dot->part_rounds > 0 ? pillion_dsp_dot_join : whole);
    return jump;
}

/* Copies inputs of all three pixels to their second place. */
static void repeat_inputs(const pillion_dsp_dot *dot, int16_t *blocks) {
    for (int32_t i = 0; i < dot->repeat_count; i++) {
        const int16_t *from = blocks + dot->repeats[2 * i];
        int16_t *to = blocks + dot->repeats[2 * i + 1];
        to[0] = from[0], to[2] = from[2], to[4] = from[4];
    }
}

static void three_pixels(pillion_dsp_dot *dot, int8_t *y) {
    if (dot->repeat_count != 0) {
        repeat_inputs(dot, (int16_t *)dot->blocks);
    }
    pillion_dsp_run_pairs(dot, y, pairs_of_channels);
}

void pillion_dsp_dot_begin(pillion_dsp_dot *dot, int32_t pixels, void *scratch) {
    dot->three = three_pixels;
    dot->rest = list_jumps(dot, pillion_dsp_place(dot, pixels, scratch));
}

/* r0-r2 pixels, r3 blocks, r4-r9 one block: of each pixel inputs 0 and 2, then 1 and 3; r10 rounds of four blocks, r11
 * rows, r12 skip, lr rounds left. The first round of a row enters where it must; that address is on the stack. */
#define WIDENED 4 /* blocks to a round */
#define WIDEN_BYTES 40
#define WIDEN                      \
    "ldr r7, [r0], #4\n"           \
    "ldr r8, [r1], #4\n"           \
    "ldr r9, [r2], #4\n"           \
    "sxtb16 r4, r7\n"              \
    "sxtb16 r5, r8\n"              \
    "sxtb16 r6, r9\n"              \
    "sxtb16 r7, r7, ror #8\n"      \
    "sxtb16 r8, r8, ror #8\n"      \
    "sxtb16 r9, r9, ror #8\n"      \
    "stmia r3!, {r4-r9}\n"
PILLION_NAKED void pillion_dsp_widen_3(PILLION_UNUSED const int8_t *x0, PILLION_UNUSED const int8_t *x1, PILLION_UNUSED const int8_t *x2,
                                      PILLION_UNUSED int32_t *blocks, PILLION_UNUSED int32_t fours, PILLION_UNUSED int32_t rows,
                                      PILLION_UNUSED int32_t skip) {
    __asm volatile("push {r4-r11, lr}\n"
                   "ldrd r10, r11, [sp, #36]\n"
                   "ldr r12, [sp, #44]\n"
                   "rsb r4, r10, #0\n"
                   "and r4, r4, #3\n" /* WIDENED - 1 */
                   "adr r5, 2f\n"
                   "mov r6, #" PILLION_TEXT(WIDEN_BYTES) "\n"
                   "mla r4, r4, r6, r5\n"
                   "orr r4, r4, #1\n"
                   "push {r4}\n"
                   "add r10, r10, #3\n"
                   "lsr r10, r10, #2\n"
                   "1:\n"
                   "mov lr, r10\n"
                   "ldr pc, [sp]\n"
                   ".balign 4\n"
                   "2:\n"
                   PILLION_REPEAT("2b", WIDENED, WIDEN_BYTES, WIDEN)
                   "subs lr, lr, #1\n"
                   "bne.w 2b\n"
                   "subs r11, r11, #1\n"
                   "itttt ne\n"
                   "addne r0, r0, r12\n"
                   "addne r1, r1, r12\n"
                   "addne r2, r2, r12\n"
                   "bne 1b\n"
                   "add sp, sp, #4\n"
                   "pop {r4-r11, pc}\n");
}
#endif

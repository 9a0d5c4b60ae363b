/* SPDX-License-Identifier: Apache-2.0
 * The products of Winograd's convolution with windows of 3x3 (README.md), by the steps of winograd_steps.h, and from these the 2x2 results of each tile.
 *
 * The 16 places of a tile come column by column, 0 2 1 3, and in each by row, 1 2 0 3. What follows the steps joins the sums of places, or requantizes.
 * On the stack: sums of six, five times; weights, list of jumps, constants, places of y. */
#define FAMILY "pillion_dsp_winograd_"
#include "winograd.h"
#include "winograd_steps.h"

#if PILLION_HAS_DSP

PILLION_AT(pillion_dsp_winograd_loop, x, 0);
PILLION_BYTES(pillion_dsp_winograd_loop, 20);

/* The first place on the stack is that of row 1, then of row 1 less row 2. */
#define BIAS "ldr r1, [sp, #128]\n" "ldrd r8, r11, [r1]\n"
#define STORE(place) "add r5, sp, #" place "\n" "stmia r5, {r6-r11}\n"
#define ADD /* what lies where r5 says */ \
    "ldmia r5!, {r1-r4}\n"             \
    "add r6, r6, r1\n"                 \
    "add r7, r7, r2\n"                 \
    "add r8, r8, r3\n"                 \
    "add r9, r9, r4\n"                 \
    "ldmia r5, {r1, r2}\n"             \
    "add r10, r10, r1\n"               \
    "add r11, r11, r2\n"

/* s, r = (r - s) / 2, (r + s) / 2 */
#define HALVES(s, r)                   \
    "sub " s ", " r ", " s "\n"        \
    "asr " s ", " s ", #1\n"           \
    "sub " r ", " r ", " s "\n"
/* The sums of column 2 lie in the place that r5 says, those of column 0 two places before. */
#define JOIN_COLUMNS                   \
    "ldmia r5, {r1-r4}\n"              \
    HALVES("r1", "r6")                 \
    HALVES("r2", "r7")                 \
    HALVES("r3", "r8")                 \
    HALVES("r4", "r9")                 \
    "stmia r5, {r1-r4}\n"              \
    "ldrd r1, r2, [r5, #16]\n"         \
    HALVES("r1", "r10")                \
    HALVES("r2", "r11")                \
    "strd r1, r2, [r5, #16]\n"         \
    "sub r5, r5, #48\n"

/* r1 round, r2 multiplier, r3 shift; r5 is free. From twice the sum. */
#define ROUNDED(s)                     \
    "add r5, r1, " s ", asr #31\n"     \
    "smmlar " s ", " s ", r2, r5\n"    \
    "asr " s ", " s ", r3\n"           \
    "ssat " s ", #8, " s "\n"
#define RESULTS                        \
    "ldr r4, [sp, #128]\n"             \
    "add r4, r4, #8\n"                 \
    "ldmia r4!, {r1-r3}\n"             \
    ROUNDED("r6") ROUNDED("r7") ROUNDED("r8") \
    "ldmia r4, {r1-r3}\n"              \
    ROUNDED("r9") ROUNDED("r10") ROUNDED("r11")
#define WRITE                          \
    "ldr r4, [sp, #132]\n"             \
    "ldmia r4, {r1-r3}\n"              \
    "strb r9, [r1, #1]\n"              \
    "strb r10, [r2, #1]\n"             \
    "strb r11, [r3, #1]\n"             \
    "strb r6, [r1], #2\n"              \
    "strb r7, [r2], #2\n"              \
    "strb r8, [r3], #2\n"              \
    "stmia r4!, {r1-r3}\n"             \
    "str r4, [sp, #132]\n" GO_ON

/* How far it is from the steps to a place; 0 ends what follows the same products. */
#define THEN(name) ".hword pillion_dsp_winograd_" name " - pillion_dsp_winograd_steps\n"
#define AFTER(name) THEN(name) ".hword 0\n"
#define KEPT_BYTES "120" /* of five times six sums */

PILLION_NAKED void pillion_dsp_winograd_pair(PILLION_UNUSED const pillion_dsp_winograd_loop *loop) {
    __asm volatile("push {r4-r11, lr}\n"
                   "ldmia r0, {r0, r1-r4}\n"
                   "push {r1-r4}\n"
                   "sub sp, sp, #" KEPT_BYTES "\n"
                   "ldrd r12, lr, [sp, #120]\n" FIRST_STEP
                   STEPS
                   PLACE("next_row") STORE_FIRST FIRST_STEP
                   PLACE("join_rows") SUMS_AND_DIFFERENCES GO_ON
                   PLACE("column_0") STORE("24") LOAD_FIRST GO_ON
                   PLACE("after_0") STORE("48") FIRST_STEP
                   PLACE("column_2") STORE("72") LOAD_FIRST GO_ON
                   PLACE("after_2") STORE("96") BIAS FIRST_STEP_WITH_BIAS
                   PLACE("upper_left") "add r5, sp, #72\n" "b 1f\n"
                   PLACE("lower") LOAD_FIRST GO_ON
                   PLACE("lower_left") "add r5, sp, #96\n" "1:\n" JOIN_COLUMNS "2:\n" ADD GO_ON
                   PLACE("next_column") FIRST_STEP
                   PLACE("upper_right") "add r5, sp, #72\n" "b 2b\n"
                   PLACE("lower_right") "add r5, sp, #96\n" "b 2b\n"
                   PLACE("requantize") RESULTS WRITE
                   PLACE("end")
                   "add sp, sp, #136\n"
                   "pop {r4-r11, pc}\n"
                   /* What follows the products of each place: of each column those of rows 1, 2, 0 and 3. */
                   ".balign 4\n" PLACE("after")
                   AFTER("next_row") AFTER("join_rows") AFTER("column_0") AFTER("after_0")
                   AFTER("next_row") AFTER("join_rows") AFTER("column_2") AFTER("after_2")
                   AFTER("next_row") AFTER("join_rows") THEN("upper_left") THEN("requantize") AFTER("lower")
                   THEN("lower_left") THEN("requantize") AFTER("next_column")
                   AFTER("next_row") THEN("join_rows") AFTER("upper_right") THEN("requantize") THEN("lower") AFTER("lower_right") THEN("requantize") AFTER("end"));
}

extern const uint8_t pillion_dsp_winograd_steps[];
extern const uint16_t pillion_dsp_winograd_after[];

uint32_t *pillion_dsp_winograd_jumps(uint32_t *jump, int32_t steps) {
    const uint16_t *after = pillion_dsp_winograd_after;
    for (int32_t place = 0; place < PILLION_DSP_WINOGRAD_PLACES; place++, after++) {
        jump = list_steps(jump, pillion_dsp_winograd_steps, steps - (place % 4 < 2)); /* the first step of rows 1 and 2 is made already */
        for (; *after != 0; after++) {
            *jump++ = pillion_thumb(pillion_dsp_winograd_steps + *after);
        }
    }
    return jump;
}
#endif

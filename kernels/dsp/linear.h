/* SPDX-License-Identifier: Apache-2.0
 * What fully connected layers with weights of eight and of four bits share: the widened row, and four results.
 * Registers: r12 weights, r11 y; r1-r4 rounds and multipliers, r5 shifts, r6 what rounds. */
#ifndef PILLION_DSP_LINEAR_H
#define PILLION_DSP_LINEAR_H

#include "widen.h"

#include <string.h>

#if PILLION_HAS_DSP

/* r5 right shifts of this channel and what follows. The sum is twice as large. */
#define REQUANTIZE(s, round, multiplier)        \
    "add r6, " round ", " s ", asr #31\n"       \
    "smmlar " s ", " s ", " multiplier ", r6\n" \
    "asr " s ", " s ", r5\n"                    \
    "ssat " s ", #8, " s "\n"
/* Where negative sums do not matter. */
#define REQUANTIZE_RECTIFIED(s, round, multiplier)           \
    "smmlar " s ", " s ", " multiplier ", " round "\n"       \
    "asr " s ", " s ", r5\n"                                 \
    "ssat " s ", #8, " s "\n"
/* r1 round, r2 multiplier of the second channel, r3 r4 of the first. */
#define PAIR(requantize, second, first, next)   \
    requantize(second, "r1", "r2") next         \
    requantize(first, "r3", "r4")               \
    "strb " second ", [r11, #1]\n"              \
    "strb " first ", [r11], #2\n"
/* The constants of a group to its results B, A, D, C; the sign of r5 ends the run, and no flag changes until the end. */
#define GROUP_RESULTS(requantize, b, a, d, c)                           \
    "ldmia r12!, {r1-r5}\n" PAIR(requantize, b, a, "asrs r5, r5, #8\n") \
    "ldmia r12!, {r1-r4}\n"                                             \
    "lsr r5, r5, #8\n" PAIR(requantize, d, c, "ubfx r5, r5, #8, #7\n")
#define GROUP(requantize, b, a, d, c) GROUP_RESULTS(requantize, b, a, d, c) "bpl.w 1b\n"

/* Widens a row up to a multiple of four inputs, those beyond its end with any numbers. */
static inline void pillion_dsp_widen_row(const int8_t *x, int32_t count, int32_t *to) {
    const int32_t eights = count >> 3;
    int32_t left = count & 7;
    uint32_t four = 0;
    int32_t *next = to + 4 * eights;
    if (eights > 0) {
        pillion_dsp_widen_eights(x, eights, to);
        x += 8 * eights;
    }
    for (; left >= 4; left -= 4, x += 4, next += 2) {
        memcpy(&four, x, 4);
        pillion_dsp_widen_four(next, four);
    }
    if (left > 0) {
        for (int32_t i = 0; i < left; i++) {
            four = four << 8 | (uint8_t)x[left - 1 - i];
        }
        pillion_dsp_widen_four(next, four);
    }
}
#endif
#endif

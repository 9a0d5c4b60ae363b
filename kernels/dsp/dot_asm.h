/* SPDX-License-Identifier: Apache-2.0
 * What the loops of dot_dsp.c and dot_1_dsp.c share: from the sums of a pair of channels to its results.
 * Requantization (README.md) takes twice the sum; S_B comes doubled, by a shift of 7. The shift to the right is 1 or more. */
#ifndef PILLION_DSP_DOT_ASM_H
#define PILLION_DSP_DOT_ASM_H

#include "dot.h"
#include "pillion/assembly.h"

/* r1 round_B, r2 multiplier_B, r3 round_A, r4 multiplier_A, r5 shift. REQUANTIZE takes twice a sum. */
#define REQUANTIZE(s, round, multiplier)             \
    "add r0, " round ", " s ", asr #31\n"            \
    "smmlar " s ", " s ", " multiplier ", r0\n"      \
    "asr " s ", " s ", r5\n"                         \
    "ssat " s ", #8, " s "\n"
#define CHANNEL_B(requantize, t, s)  \
    "sub " t ", " t ", " s "\n"      \
    "asr " t ", " t ", #7\n"         \
    requantize(t, "r1", "r2")
#define CHANNEL_A(requantize, s) "add " s ", " s ", " s "\n" requantize(s, "r3", "r4")

#define PLACE(name) ".global pillion_dsp_dot_" name "\n" "pillion_dsp_dot_" name ":\n"

#endif

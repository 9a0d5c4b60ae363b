/* SPDX-License-Identifier: Apache-2.0
 * Conversions between 8 and 16 bits: (x * multiplier / 2^16 + constant) >> 15, saturated, where x is a halfword of a pair. The compiler has
 * tried all numbers (emitters/c/families/conversions.py).
 * Registers: %[m] and %[c] multiplier and constant, %[x] and %[y] the tensors, which move on; the others are named by their use. */
#ifndef PILLION_DSP_CONVERSIONS_H
#define PILLION_DSP_CONVERSIONS_H

#include "pillion/dsp.h"

#if PILLION_HAS_DSP
#define CONVERT(half, bits, level, pair)                       \
    "smlaw" half " " level ", %[m], " pair ", %[c]\n"          \
    "ssat " level ", #" bits ", " level ", asr #15\n"

/* One number, in the lower half of a word. */
#define CONVERT_ONE(bits, level) \
    __asm(CONVERT("b", bits, "%[level]", "%[level]") : [level] "+r"(level) : [m] "r"(p->multiplier), [c] "r"(p->constant))
#endif

#endif

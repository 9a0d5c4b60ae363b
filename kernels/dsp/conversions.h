/* SPDX-License-Identifier: Apache-2.0
 * Conversions between 8 and 16 bits: (x * multiplier / 2^16 + constant) >> 15, saturated, where x is a halfword of a pair. The compiler has
 * tried all numbers (emitters/c/families/conversions.py). */
#ifndef PILLION_DSP_CONVERSIONS_H
#define PILLION_DSP_CONVERSIONS_H

#include "pillion/dsp.h"

#if PILLION_HAS_DSP
#include <string.h>

#define PILLION_CONVERT(name, half, bits)                                                                        \
    static inline int32_t name(uint32_t pair, int32_t multiplier, int32_t constant) {                            \
        int32_t level;                                                                                           \
        __asm("smlaw" half " %0, %1, %2, %3\n"                                                                   \
              "ssat %0, #" bits ", %0, asr #15\n"                                                                \
              : "=r"(level)                                                                                      \
              : "r"(multiplier), "r"(pair), "r"(constant));                                                      \
        return level;                                                                                            \
    }

PILLION_CONVERT(pillion_lower_to_8, "b", "8")
PILLION_CONVERT(pillion_upper_to_8, "t", "8")
PILLION_CONVERT(pillion_lower_to_16, "b", "16")
PILLION_CONVERT(pillion_upper_to_16, "t", "16")
#endif

#endif

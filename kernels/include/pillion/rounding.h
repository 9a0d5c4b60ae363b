/* SPDX-License-Identifier: Apache-2.0
 * From real numbers to integers of a few bits, by looking at their bits: exact on every processor, with or without
 * floating point hardware, and out of reach of fused multiply-add. */
#ifndef PILLION_ROUNDING_H
#define PILLION_ROUNDING_H

#include "pillion/requantize.h"

/* Larger than any quantized value and zero point together: from here on only the sign matters. */
enum { PILLION_FAR = 512 };

/* The nearest integer, ties to even or away from zero; at most 2^bits; 0 for NaN. */
PILLION_INLINE int32_t pillion_nearest_within(float real, int32_t ties_to_even, int32_t bits) {
    const union {
        float real;
        uint32_t bits;
    } pun = {real};
    const uint32_t magnitude = pun.bits & 0x7fffffffu;
    const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
    const int32_t exponent = (int32_t)(magnitude >> 23);
    const int32_t places = pillion_clamp(150 - exponent, 1, 25); /* with 25 everything is less than a half */
    const uint32_t is_odd = (mantissa >> places) & 1u;
    const uint32_t up = (1u << (places - 1)) - (ties_to_even ? 1u - is_odd : 0u);
    const int32_t near = (int32_t)((mantissa + up) >> places);
    const int32_t level = exponent >= 127 + bits ? 1 << bits : near;
    const int32_t number = magnitude > 0x7f800000u ? 0 : level;
    return pun.bits >> 31 ? -number : number;
}

/* The nearest integer, for levels of 8 bits: at most PILLION_FAR. */
PILLION_INLINE int32_t pillion_nearest(float real, int32_t ties_to_even) {
    return pillion_nearest_within(real, ties_to_even, 9);
}

/* The nearest integer, ties away from zero; at most 2^bits. The argument is a number. */
PILLION_INLINE int32_t pillion_nearest_double_within(double real, int32_t bits) {
    const union {
        double real;
        uint64_t bits;
    } pun = {real};
    const uint64_t mantissa = (pun.bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x0010000000000000);
    const int32_t exponent = (int32_t)(pun.bits >> 52) & 0x7ff;
    const int32_t places = pillion_clamp(1075 - exponent, 1, 54);
    const int32_t near = (int32_t)((mantissa + (UINT64_C(1) << (places - 1))) >> places);
    const int32_t number = exponent >= 1023 + bits ? 1 << bits : near;
    return pun.bits >> 63 ? -number : number;
}

/* The nearest integer, for levels of 8 bits: at most PILLION_FAR. */
PILLION_INLINE int32_t pillion_nearest_to_double(double real) {
    return pillion_nearest_double_within(real, 9);
}

#endif

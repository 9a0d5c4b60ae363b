/* SPDX-License-Identifier: Apache-2.0
 * float32 to int8 by one product of mantissas. A library's product of two floats takes 30 instructions and more, and only where it
 * lies close to the middle between two integers does it matter how it is rounded: there it is asked, one number in thousands. */
#include "pillion/requantize.h"
#include "pillion/rounding.h"
#include "pillion/scalar.h"
#include "rescale.h"

/* How far the product of the mantissas, in steps of 2^-31 of the larger one, may be below that of the floats, and above. */
#if PILLION_SCALAR_THUMB == 1
enum { BELOW = (1 << 17) + 512, ABOVE = 512 };
#else
enum { BELOW = 512, ABOVE = 512 };
#endif

/* The most places by which a product may be moved for results that are not too large, whatever the zero point. */
enum { MOST_PLACES = 9 };

typedef struct {
    float reciprocal;
    uint32_t mantissa; /* of the reciprocal, its first bit being bit 31 */
    int32_t places;    /* of a product, less than its exponent says */
    int32_t out_zp;
} quantizing;

static uint32_t bits_of(float real) {
    const union {
        float real;
        uint32_t bits;
    } pun = {real};
    return pun.bits;
}

/* The first bit of a number that is neither tiny nor infinite is not written. */
PILLION_INLINE uint32_t mantissa_of(uint32_t bits) {
    return bits << 8 | 0x80000000u;
}

PILLION_INLINE int32_t exponent_of(uint32_t bits) {
    return (int32_t)(bits << 1 >> 24);
}

PILLION_INLINE uint32_t upper(uint32_t a, uint32_t b) {
#if PILLION_SCALAR_THUMB == 1
    return (a >> 16) * (b >> 16);
#else
    return (uint32_t)((uint64_t)a * b >> 32);
#endif
}

/* The definition. */
PILLION_APART int32_t exact(float x, const quantizing *by) {
    return pillion_nearest(x * by->reciprocal, 1);
}

PILLION_INLINE int32_t level_of(float x, const quantizing *by) {
    const uint32_t bits = bits_of(x), product = upper(mantissa_of(bits), by->mantissa);
    const int32_t left = exponent_of(bits) - by->places;
    if (left < -1) { /* less than a half */
        return 0;
    }
    if (left < 0 || left > MOST_PLACES) {
        return exact(x, by);
    }
    /* The fraction, counted from the middle between two integers. */
    const uint32_t behind = ((product + BELOW) << left) + 0x80000000u;
    if (behind < (uint32_t)(BELOW + ABOVE) << left) {
        return exact(x, by);
    }
    const int32_t level = (int32_t)(((product >> (31 - left)) + 1u) >> 1);
    return bits >> 31 ? -level : level;
}

void pillion_quantize_s8_scalar(const pillion_quantize_s8_scalar_params *p, const float *x, int8_t *y, void *scratch) {
    (void)scratch;
    const uint32_t reciprocal = bits_of(p->reciprocal);
    const quantizing by = {p->reciprocal, mantissa_of(reciprocal), 252 - exponent_of(reciprocal), p->out_zp};
    const float *const end = x + p->count;
    if (by.places < 2 || by.places > 255 - (MOST_PLACES + 1)) { /* tiny numbers, or NaN, would be among the others */
        for (; x < end; x++) {
            *y++ = (int8_t)pillion_clamp(exact(*x, &by) + by.out_zp, -128, 127);
        }
    }
    for (; x < end; x++) {
        *y++ = (int8_t)pillion_clamp(level_of(*x, &by) + by.out_zp, -128, 127);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * int8 to float32 by one product of 32 bits: a mantissa has 24 bits, its factor 8. The product is rounded to 24 bits, halves to
 * even, like a product of two floats. */
#include "pillion/requantize.h"
#include "pillion/scalar.h"
#include "rescale.h"

typedef union {
    float real;
    uint32_t bits;
} number;

/* Numbers that are neither zero nor tiny nor infinite. */
PILLION_INLINE float product(uint32_t mantissa, uint32_t exponent, int32_t level) {
    const uint32_t whole = mantissa * (uint32_t)(level < 0 ? -level : level);
    const int32_t over = 8 - __builtin_clz(whole);
    const uint32_t half = (1u << over) >> 1;
    const uint32_t is_odd = whole >> over & 1u;
    const uint32_t rounded = (whole + half - (half & (is_odd - 1u) ? 1u : 0u)) >> over;
    const number found = {.bits = (level < 0 ? 0x80000000u : 0u) + ((exponent + (uint32_t)over - 1u) << 23) + rounded};
    return found.real;
}

void pillion_dequantize_s8_scalar(const pillion_dequantize_s8_scalar_params *p, const int8_t *x, float *y, void *scratch) {
    (void)scratch;
    const number scale = {p->scale};
    const uint32_t exponent = scale.bits >> 23, mantissa = (scale.bits & 0x007fffffu) | 0x00800000u;
    const int32_t zero = p->in_zp, is_usual = exponent > 0 && exponent < 255 - 9;
    for (const int8_t *const end = x + p->count; x < end; x++) {
        const int32_t level = *x - zero;
        *y++ = level == 0 ? 0.0f : is_usual ? product(mantissa, exponent, level) : (float)level * scale.real;
    }
}

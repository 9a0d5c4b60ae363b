/* SPDX-License-Identifier: Apache-2.0
 * Sums of products of two vectors of int8, and of int16 modulo 2^32, in the words of the processor that it is compiled for. */
#ifndef PILLION_PRODUCTS_H
#define PILLION_PRODUCTS_H

#include <stdint.h>

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

static inline int32_t pillion_products(const int8_t *x, const int8_t *w, int32_t count) {
    int32_t sum = 0;
    for (; count > 0; count -= 16, x += 16, w += 16) {
        const mve_pred16_t part = vctp8q((uint32_t)count);
        sum = vmladavaq_p_s8(sum, vldrbq_z_s8(x, part), vldrbq_z_s8(w, part), part);
    }
    return sum;
}

static inline uint32_t pillion_products16(const int16_t *x, const int16_t *w, int32_t count) {
    int32_t sum = 0;
    for (; count > 0; count -= 8, x += 8, w += 8) {
        const mve_pred16_t part = vctp16q((uint32_t)count);
        sum = vmladavaq_p_s16(sum, vldrhq_z_s16(x, part), vldrhq_z_s16(w, part), part);
    }
    return (uint32_t)sum;
}
#elif defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
#include <string.h>

static inline int32_t pillion_products(const int8_t *x, const int8_t *w, int32_t count) {
    int32_t sum = 0;
    for (; count >= 4; count -= 4, x += 4, w += 4) {
        uint32_t a, b, even, odd;
        memcpy(&a, x, 4);
        memcpy(&b, w, 4);
        __asm("sxtb16 %0, %1" : "=r"(even) : "r"(a));
        __asm("sxtb16 %0, %1" : "=r"(odd) : "r"(b));
        __asm("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(even), "r"(odd));
        __asm("sxtb16 %0, %1, ror #8" : "=r"(even) : "r"(a));
        __asm("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(b));
        __asm("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(even), "r"(odd));
    }
    for (; count > 0; count--) {
        sum += *x++ * *w++;
    }
    return sum;
}

static inline uint32_t pillion_products16(const int16_t *x, const int16_t *w, int32_t count) {
    uint32_t sum = 0;
    for (; count >= 2; count -= 2, x += 2, w += 2) {
        uint32_t a, b;
        memcpy(&a, x, 4);
        memcpy(&b, w, 4);
        __asm("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    }
    return count > 0 ? sum + (uint32_t)(*x * *w) : sum;
}
#else
static inline int32_t pillion_products(const int8_t *x, const int8_t *w, int32_t count) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

static inline uint32_t pillion_products16(const int16_t *x, const int16_t *w, int32_t count) {
    uint32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (uint32_t)(x[i] * w[i]);
    }
    return sum;
}
#endif

#endif

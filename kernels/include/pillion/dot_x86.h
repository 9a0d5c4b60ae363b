/* SPDX-License-Identifier: Apache-2.0
 * The sums of dot.h with the vector instructions of x86 hosts, which compilers do not find for this by themselves. */
#ifndef PILLION_DOT_X86_H
#define PILLION_DOT_X86_H

#include "pillion/requantize.h"
#include "pillion/window.h"

#include <immintrin.h>

/* Four inputs, counted from -128. */
PILLION_INLINE __m128i pillion_four(const int8_t *x) {
    return _mm_xor_si128(_mm_loadu_si32(x), _mm_set1_epi8(-128));
}

#if defined(__AVX2__)
/* Eight channels to two registers, in which each channel has two sums: of inputs 0 and 1, of inputs 2 and 3. */
PILLION_INLINE void pillion_dot_16_bit(uint32_t *sums, const int32_t *bias, const int8_t *x, const int8_t *w,
                                       int32_t fours, int32_t stride, int32_t lanes) {
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    const int32_t registers = lanes / 4;
    for (; fours > 0; fours--, x += 4, w += stride) {
        const __m256i four = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(pillion_four(x)));
        for (int32_t r = 0; r < registers; r++) {
            const __m128i weights = _mm_loadu_si128((const __m128i *)(const void *)(w + 16 * r));
            sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(four, _mm256_cvtepi8_epi16(weights)));
        }
    }
    for (int32_t r = 0; r < registers; r += 2, sums += 8, bias += 8) {
        const __m256i pairs = _mm256_hadd_epi32(sum[r], sum[r + 1]);
        const __m256i whole = _mm256_permute4x64_epi64(pairs, _MM_SHUFFLE(3, 1, 2, 0));
        const __m256i start = _mm256_loadu_si256((const __m256i *)(const void *)bias);
        _mm256_storeu_si256((__m256i *)(void *)sums, _mm256_add_epi32(start, whole));
    }
}
#else
/* Four channels to two registers, in which each channel has two sums: of inputs 0 and 1, of inputs 2 and 3. */
PILLION_INLINE void pillion_dot_16_bit(uint32_t *sums, const int32_t *bias, const int8_t *x, const int8_t *w,
                                       int32_t fours, int32_t stride, int32_t lanes) {
    const __m128i zero = _mm_setzero_si128();
    __m128i sum[8] = {zero, zero, zero, zero, zero, zero, zero, zero};
    const int32_t registers = lanes / 2;
    for (; fours > 0; fours--, x += 4, w += stride) {
        const __m128i inputs = _mm_unpacklo_epi8(pillion_four(x), zero);
        const __m128i four = _mm_unpacklo_epi64(inputs, inputs);
        for (int32_t r = 0; r < registers; r += 2) {
            const __m128i weights = _mm_loadu_si128((const __m128i *)(const void *)(w + 8 * r));
            const __m128i first = _mm_srai_epi16(_mm_unpacklo_epi8(weights, weights), 8);
            const __m128i second = _mm_srai_epi16(_mm_unpackhi_epi8(weights, weights), 8);
            sum[r] = _mm_add_epi32(sum[r], _mm_madd_epi16(four, first));
            sum[r + 1] = _mm_add_epi32(sum[r + 1], _mm_madd_epi16(four, second));
        }
    }
    for (int32_t r = 0; r < registers; r += 2, sums += 4, bias += 4) {
        const __m128 first = _mm_castsi128_ps(sum[r]), second = _mm_castsi128_ps(sum[r + 1]);
        const __m128i lower = _mm_castps_si128(_mm_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0)));
        const __m128i upper = _mm_castps_si128(_mm_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1)));
        const __m128i start = _mm_loadu_si128((const __m128i *)(const void *)bias);
        _mm_storeu_si128((__m128i *)(void *)sums, _mm_add_epi32(start, _mm_add_epi32(lower, upper)));
    }
}
#endif

#if defined(__AVX512VNNI__)
/* 16 channels to a register. Even and odd fours have sums of their own, so that additions wait less for each other. */
PILLION_INLINE void pillion_dot_vnni(uint32_t *sums, const int32_t *bias, const int8_t *x, const int8_t *w,
                                     int32_t fours, int32_t stride, int32_t lanes) {
    __m512i even[2], odd[2];
    const int32_t registers = lanes / 16;
    for (int32_t r = 0; r < registers; r++) {
        even[r] = _mm512_loadu_si512(bias + 16 * r);
        odd[r] = _mm512_setzero_si512();
    }
    for (; fours > 1; fours -= 2, x += 8, w += 2 * stride) {
        const __m512i first = _mm512_broadcastd_epi32(pillion_four(x));
        const __m512i second = _mm512_broadcastd_epi32(pillion_four(x + 4));
        for (int32_t r = 0; r < registers; r++) {
            even[r] = _mm512_dpbusd_epi32(even[r], first, _mm512_loadu_si512(w + 64 * r));
            odd[r] = _mm512_dpbusd_epi32(odd[r], second, _mm512_loadu_si512(w + stride + 64 * r));
        }
    }
    if (fours == 1) {
        const __m512i last = _mm512_broadcastd_epi32(pillion_four(x));
        for (int32_t r = 0; r < registers; r++) {
            even[r] = _mm512_dpbusd_epi32(even[r], last, _mm512_loadu_si512(w + 64 * r));
        }
    }
    for (int32_t r = 0; r < registers; r++) {
        _mm512_storeu_si512(sums + 16 * r, _mm512_add_epi32(even[r], odd[r]));
    }
}
#endif

/* 8, 16 or 32 lanes. */
PILLION_INLINE void pillion_dot_x86(uint32_t *sums, const int32_t *bias, const int8_t *x, const int8_t *w,
                                    int32_t fours, int32_t stride, int32_t lanes) {
#if defined(__AVX512VNNI__)
    if (lanes >= 16) {
        pillion_dot_vnni(sums, bias, x, w, fours, stride, lanes);
        return;
    }
#endif
    for (int32_t first = 0; first < lanes; first += 16) {
        pillion_dot_16_bit(sums + first, bias + first, x, w + 4 * first, fours, stride, lanes < 16 ? lanes : 16);
    }
}

#if defined(__AVX2__)
/* Channels of their own, 8 to a register: sums[j] = bias[j] + sum over all taps of (x[j] - in_zp) * w[j]. */
PILLION_INLINE void pillion_window_x86(const pillion_taps *t, const int8_t *x, const int8_t *w, const int32_t *bias,
                                       uint32_t *sums, int32_t lanes) {
    const __m256i in_zp = _mm256_set1_epi32(t->in_zp);
    const int32_t registers = lanes / 8;
    __m256i sum[4];
    for (int32_t r = 0; r < registers; r++) {
        sum[r] = _mm256_loadu_si256((const __m256i *)(const void *)(bias + 8 * r));
    }
    for (int32_t ky = 0; ky < t->rows; ky++) {
        const int8_t *xs = x + ky * t->x_row_step, *ws = w + ky * t->w_row_step;
        for (int32_t kx = 0; kx < t->columns; kx++, xs += t->x_step, ws += t->w_step) {
            for (int32_t r = 0; r < registers; r++) {
                const __m256i inputs = _mm256_cvtepi8_epi32(_mm_loadu_si64(xs + 8 * r));
                const __m256i weights = _mm256_cvtepi8_epi32(_mm_loadu_si64(ws + 8 * r));
                const __m256i products = _mm256_mullo_epi32(_mm256_sub_epi32(inputs, in_zp), weights);
                sum[r] = _mm256_add_epi32(sum[r], products);
            }
        }
    }
    for (int32_t r = 0; r < registers; r++) {
        _mm256_storeu_si256((__m256i *)(void *)(sums + 8 * r), sum[r]);
    }
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Vectors of a computer with x86 processors, in two widths: 64 bytes (AVX-512 with VNNI) or 32 (AVX2). Kernels are written once,
 * for registers of PILLION_LANES sums of 32 bits. Four of these hold the sums of as many channels as a vector has bytes, in their
 * own order; that is what a kernel makes at a time. */
#ifndef PILLION_HOST_VECTOR_H
#define PILLION_HOST_VECTOR_H

#include "pillion/requantize.h"

#include <immintrin.h>
#include <string.h>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define PILLION_WIDE 1
typedef __m512i pillion_vector;
enum { PILLION_VECTOR = 64 };
#elif defined(__AVX2__) && defined(__FMA__)
#define PILLION_WIDE 0
typedef __m256i pillion_vector;
enum { PILLION_VECTOR = 32 };
#else
#error "these kernels are for processors with AVX2"
#endif

enum { PILLION_LANES = PILLION_VECTOR / 4, PILLION_REGISTERS = 4 };

#if PILLION_WIDE

PILLION_INLINE pillion_vector pillion_load_vector(const void *from) {
    return _mm512_loadu_si512(from);
}

PILLION_INLINE __mmask64 pillion_first_bytes(int32_t count) {
    return count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

/* The first `count` bytes of a vector; no more are read. */
PILLION_INLINE pillion_vector pillion_load_some(const void *from, int32_t count) {
    return _mm512_maskz_loadu_epi8(pillion_first_bytes(count), from);
}

PILLION_INLINE void pillion_store_some(void *to, pillion_vector v, int32_t count) {
    _mm512_mask_storeu_epi8(to, pillion_first_bytes(count), v);
}

PILLION_INLINE void pillion_store_vector(void *to, pillion_vector v) {
    _mm512_storeu_si512(to, v);
}

PILLION_INLINE pillion_vector pillion_bytes(int32_t value) {
    return _mm512_set1_epi8((char)value);
}

/* int8 counted from the lowest, so that it is unsigned; and back. */
PILLION_INLINE pillion_vector pillion_flip_signs(pillion_vector v) {
    return _mm512_xor_si512(v, _mm512_set1_epi8(-128));
}

/* The same four bytes for all lanes. */
PILLION_INLINE pillion_vector pillion_four_for_all(const uint8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

/* To each lane, the products of four unsigned and four signed bytes. */
PILLION_INLINE pillion_vector pillion_add_products(pillion_vector sums, pillion_vector u, pillion_vector s) {
    return _mm512_dpbusd_epi32(sums, u, s);
}

/* The upper halves of products; `up` is added before. Even and odd lanes have their multipliers apart. */
PILLION_INLINE pillion_vector pillion_upper_products(pillion_vector v, pillion_vector even_factor, pillion_vector odd_factor,
                                                     int64_t up) {
    const __m512i round = _mm512_set1_epi64(up);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(v, even_factor), round);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(v, 32), odd_factor), round);
    return _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}

/* As pillion_requantize, for shifts to the right. Of a product of twice the sum the upper half is the one that is wanted. */
PILLION_INLINE pillion_vector pillion_scale(pillion_vector sums, pillion_vector even_factor, pillion_vector odd_factor,
                                            pillion_vector half, pillion_vector right) {
    const __m512i high = pillion_upper_products(_mm512_slli_epi32(sums, 1), even_factor, odd_factor, INT64_C(1) << 31);
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(high, half), _mm512_srai_epi32(high, 31));
    return _mm512_srav_epi32(rounded, right);
}

/* The same for sums above 0; what is below comes out as 0 or less. Both roundings of a sum s are one: (s * multiplier + 2^30 +
 * 2^(30 + right)) >> (31 + right), of which the last term has no lower half. `half` is its upper half, and `right` one less than
 * the shift. */
PILLION_INLINE pillion_vector pillion_scale_rectified(pillion_vector sums, pillion_vector even_factor,
                                                      pillion_vector odd_factor, pillion_vector half, pillion_vector right) {
    const __m512i high = pillion_upper_products(sums, even_factor, odd_factor, INT64_C(1) << 30);
    return _mm512_srav_epi32(_mm512_add_epi32(high, half), right);
}

/* int32 of four registers to int8: clamp(v + zp, low, high). */
PILLION_INLINE pillion_vector pillion_narrow(const pillion_vector *v, int32_t zp, int32_t low, int32_t high) {
    const __m512i offset = _mm512_set1_epi16((int16_t)zp);
    const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), offset);
    const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), offset);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, second));
    return _mm512_max_epi8(_mm512_min_epi8(bytes, pillion_bytes(high)), pillion_bytes(low));
}

/* Bytes of four vectors side by side: lane n of register r has the bytes number r * LANES + n of all four. */
PILLION_INLINE void pillion_zip(const pillion_vector *v, pillion_vector *zipped) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i v0 = _mm512_permutexvar_epi32(order, v[0]), v1 = _mm512_permutexvar_epi32(order, v[1]);
    const __m512i v2 = _mm512_permutexvar_epi32(order, v[2]), v3 = _mm512_permutexvar_epi32(order, v[3]);
    const __m512i low_01 = _mm512_unpacklo_epi8(v0, v1), high_01 = _mm512_unpackhi_epi8(v0, v1);
    const __m512i low_23 = _mm512_unpacklo_epi8(v2, v3), high_23 = _mm512_unpackhi_epi8(v2, v3);
    zipped[0] = _mm512_unpacklo_epi16(low_01, low_23), zipped[1] = _mm512_unpackhi_epi16(low_01, low_23);
    zipped[2] = _mm512_unpacklo_epi16(high_01, high_23), zipped[3] = _mm512_unpackhi_epi16(high_01, high_23);
}

/* One number in all lanes. */
PILLION_INLINE pillion_vector pillion_number(int32_t value) {
    return _mm512_set1_epi32(value);
}

PILLION_INLINE pillion_vector pillion_add(pillion_vector a, pillion_vector b) {
    return _mm512_add_epi32(a, b);
}

PILLION_INLINE pillion_vector pillion_multiply(pillion_vector a, pillion_vector b) {
    return _mm512_mullo_epi32(a, b);
}

PILLION_INLINE pillion_vector pillion_shift_right(pillion_vector v, int32_t places) {
    return _mm512_sra_epi32(v, _mm_cvtsi32_si128(places));
}

/* int8 to int32 in four registers. */
PILLION_INLINE void pillion_widen(pillion_vector v, pillion_vector *wide) {
    wide[0] = _mm512_cvtepi8_epi32(_mm512_castsi512_si128(v));
    wide[1] = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32(v, 1));
    wide[2] = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32(v, 2));
    wide[3] = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32(v, 3));
}

/* Float32 to integers: nearest(x * factor), ties to even; far from zero any number far from zero; 0 for NaN. */
PILLION_INLINE pillion_vector pillion_nearest_number(pillion_vector v, float factor) {
    const __m512 real = _mm512_mul_ps(_mm512_castsi512_ps(v), _mm512_set1_ps(factor));
    const __m512 near = _mm512_min_ps(_mm512_max_ps(real, _mm512_set1_ps(-512.0F)), _mm512_set1_ps(512.0F));
    return _mm512_cvtps_epi32(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(real, real, _CMP_ORD_Q), near));
}

/* The first `count` bytes, two to four, of each lane, one after the other. */
PILLION_INLINE pillion_vector pillion_first_of_four(pillion_vector v, int32_t count) {
    if (count == 4) {
        return v;
    }
    const __m128i three = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m128i two = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m512i of_three = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 15, 15, 15);
    const __m512i of_two = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 15, 15, 15, 15, 15, 15, 15, 15);
    const __m512i near = _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(count == 3 ? three : two));
    return _mm512_permutexvar_epi32(count == 3 ? of_three : of_two, near);
}

#else

PILLION_INLINE pillion_vector pillion_load_vector(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

PILLION_INLINE void pillion_store_vector(void *to, pillion_vector v) {
    _mm256_storeu_si256((__m256i *)to, v);
}

/* The first `count` bytes of a vector; no more are read. */
PILLION_INLINE pillion_vector pillion_load_some(const void *from, int32_t count) {
    if (count >= PILLION_VECTOR) {
        return pillion_load_vector(from);
    }
    uint8_t bytes[PILLION_VECTOR] = {0};
    memcpy(bytes, from, (size_t)count);
    return pillion_load_vector(bytes);
}

PILLION_INLINE void pillion_store_some(void *to, pillion_vector v, int32_t count) {
    if (count >= PILLION_VECTOR) {
        pillion_store_vector(to, v);
        return;
    }
    uint8_t bytes[PILLION_VECTOR];
    pillion_store_vector(bytes, v);
    memcpy(to, bytes, (size_t)count);
}

PILLION_INLINE pillion_vector pillion_bytes(int32_t value) {
    return _mm256_set1_epi8((char)value);
}

/* int8 counted from the lowest, so that it is unsigned; and back. */
PILLION_INLINE pillion_vector pillion_flip_signs(pillion_vector v) {
    return _mm256_xor_si256(v, _mm256_set1_epi8(-128));
}

/* The same four bytes for all lanes. */
PILLION_INLINE pillion_vector pillion_four_for_all(const uint8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm256_set1_epi32(four);
}

/* To each lane, the products of four unsigned and four signed bytes. AVX2 alone has an instruction for that which saturates:
 * even and odd bytes are widened instead. */
PILLION_INLINE pillion_vector pillion_add_products(pillion_vector sums, pillion_vector u, pillion_vector s) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sums, u, s);
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(sums, u, s);
#else
    const __m256i even_u = _mm256_and_si256(u, _mm256_set1_epi16(255)), odd_u = _mm256_srli_epi16(u, 8);
    const __m256i even_s = _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8), odd_s = _mm256_srai_epi16(s, 8);
    const __m256i products = _mm256_add_epi32(_mm256_madd_epi16(even_u, even_s), _mm256_madd_epi16(odd_u, odd_s));
    return _mm256_add_epi32(sums, products);
#endif
}

/* The upper halves of products; `up` is added before. Even and odd lanes have their multipliers apart. */
PILLION_INLINE pillion_vector pillion_upper_products(pillion_vector v, pillion_vector even_factor, pillion_vector odd_factor,
                                                     int64_t up) {
    const __m256i round = _mm256_set1_epi64x(up);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(v, even_factor), round);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(v, 32), odd_factor), round);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

/* As pillion_requantize, for shifts to the right. Of a product of twice the sum the upper half is the one that is wanted. */
PILLION_INLINE pillion_vector pillion_scale(pillion_vector sums, pillion_vector even_factor, pillion_vector odd_factor,
                                            pillion_vector half, pillion_vector right) {
    const __m256i high = pillion_upper_products(_mm256_slli_epi32(sums, 1), even_factor, odd_factor, INT64_C(1) << 31);
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(high, half), _mm256_srai_epi32(high, 31));
    return _mm256_srav_epi32(rounded, right);
}

/* The same for sums above 0; what is below comes out as 0 or less. Both roundings of a sum s are one: (s * multiplier + 2^30 +
 * 2^(30 + right)) >> (31 + right), of which the last term has no lower half. `half` is its upper half, and `right` one less than
 * the shift. */
PILLION_INLINE pillion_vector pillion_scale_rectified(pillion_vector sums, pillion_vector even_factor,
                                                      pillion_vector odd_factor, pillion_vector half, pillion_vector right) {
    const __m256i high = pillion_upper_products(sums, even_factor, odd_factor, INT64_C(1) << 30);
    return _mm256_srav_epi32(_mm256_add_epi32(high, half), right);
}

/* int32 of four registers to int8: clamp(v + zp, low, high). */
PILLION_INLINE pillion_vector pillion_narrow(const pillion_vector *v, int32_t zp, int32_t low, int32_t high) {
    const __m256i offset = _mm256_set1_epi16((int16_t)zp);
    const __m256i first = _mm256_adds_epi16(_mm256_packs_epi32(v[0], v[1]), offset);
    const __m256i second = _mm256_adds_epi16(_mm256_packs_epi32(v[2], v[3]), offset);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order);
    return _mm256_max_epi8(_mm256_min_epi8(bytes, pillion_bytes(high)), pillion_bytes(low));
}

/* Bytes of four vectors side by side: lane n of register r has the bytes number r * LANES + n of all four. */
PILLION_INLINE void pillion_zip(const pillion_vector *v, pillion_vector *zipped) {
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i v0 = _mm256_permutevar8x32_epi32(v[0], order), v1 = _mm256_permutevar8x32_epi32(v[1], order);
    const __m256i v2 = _mm256_permutevar8x32_epi32(v[2], order), v3 = _mm256_permutevar8x32_epi32(v[3], order);
    const __m256i low_01 = _mm256_unpacklo_epi8(v0, v1), high_01 = _mm256_unpackhi_epi8(v0, v1);
    const __m256i low_23 = _mm256_unpacklo_epi8(v2, v3), high_23 = _mm256_unpackhi_epi8(v2, v3);
    zipped[0] = _mm256_unpacklo_epi16(low_01, low_23), zipped[1] = _mm256_unpackhi_epi16(low_01, low_23);
    zipped[2] = _mm256_unpacklo_epi16(high_01, high_23), zipped[3] = _mm256_unpackhi_epi16(high_01, high_23);
}

/* One number in all lanes. */
PILLION_INLINE pillion_vector pillion_number(int32_t value) {
    return _mm256_set1_epi32(value);
}

PILLION_INLINE pillion_vector pillion_add(pillion_vector a, pillion_vector b) {
    return _mm256_add_epi32(a, b);
}

PILLION_INLINE pillion_vector pillion_multiply(pillion_vector a, pillion_vector b) {
    return _mm256_mullo_epi32(a, b);
}

PILLION_INLINE pillion_vector pillion_shift_right(pillion_vector v, int32_t places) {
    return _mm256_sra_epi32(v, _mm_cvtsi32_si128(places));
}

/* int8 to int32 in four registers. */
PILLION_INLINE void pillion_widen(pillion_vector v, pillion_vector *wide) {
    const __m128i first = _mm256_castsi256_si128(v), second = _mm256_extracti128_si256(v, 1);
    wide[0] = _mm256_cvtepi8_epi32(first), wide[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(first, 8));
    wide[2] = _mm256_cvtepi8_epi32(second), wide[3] = _mm256_cvtepi8_epi32(_mm_srli_si128(second, 8));
}

/* Float32 to integers: nearest(x * factor), ties to even; far from zero any number far from zero; 0 for NaN. */
PILLION_INLINE pillion_vector pillion_nearest_number(pillion_vector v, float factor) {
    const __m256 real = _mm256_mul_ps(_mm256_castsi256_ps(v), _mm256_set1_ps(factor));
    const __m256 near = _mm256_min_ps(_mm256_max_ps(real, _mm256_set1_ps(-512.0F)), _mm256_set1_ps(512.0F));
    return _mm256_cvtps_epi32(_mm256_and_ps(_mm256_cmp_ps(real, real, _CMP_ORD_Q), near));
}

/* The first `count` bytes, two to four, of each lane, one after the other. */
PILLION_INLINE pillion_vector pillion_first_of_four(pillion_vector v, int32_t count) {
    if (count == 4) {
        return v;
    }
    const __m128i three = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m128i two = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i of_three = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7), of_two = _mm256_setr_epi32(0, 1, 4, 5, 7, 7, 7, 7);
    const __m256i near = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(count == 3 ? three : two));
    return _mm256_permutevar8x32_epi32(near, count == 3 ? of_three : of_two);
}

#endif

/* How many of `whole` are left from `at` on, a vector's at most. */
PILLION_INLINE int32_t pillion_left(int32_t at, int32_t whole) {
    return whole - at < PILLION_VECTOR ? whole - at : PILLION_VECTOR;
}

/* The results from the sums of some channels. */
typedef struct {
    pillion_vector even[PILLION_REGISTERS], odd[PILLION_REGISTERS], half[PILLION_REGISTERS], right[PILLION_REGISTERS];
    int32_t rectified, zp, low, high, count;
} pillion_scales;

PILLION_INLINE void pillion_load_all(pillion_vector *v, const void *from, int32_t registers) {
    for (int32_t r = 0; r < registers; r++) {
        v[r] = pillion_load_vector((const uint8_t *)from + PILLION_VECTOR * r);
    }
}

/* That of `count` channels of a layer with params p, from `first` on. */
#define PILLION_LOAD_SCALES(scales, p, first, count_, registers)                  \
    do {                                                                          \
        pillion_load_all((scales)->even, (p)->multiplier + (first), (registers)); \
        pillion_load_all((scales)->odd, (p)->multiplier + (first) + 1, (registers)); \
        pillion_load_all((scales)->half, (p)->half + (first), (registers));       \
        pillion_load_all((scales)->right, (p)->right + (first), (registers));     \
        (scales)->rectified = (p)->rectified, (scales)->count = (count_);         \
        (scales)->zp = (p)->out_zp, (scales)->low = (p)->low, (scales)->high = (p)->high; \
    } while (0)

/* clamp(scaled sums + zp, low, high) */
PILLION_INLINE void pillion_answer(const pillion_scales *s, const pillion_vector *sums, int8_t *y, int32_t rectified,
                                   int32_t registers) {
    pillion_vector levels[PILLION_REGISTERS] = {pillion_bytes(0), pillion_bytes(0), pillion_bytes(0), pillion_bytes(0)};
    for (int32_t r = 0; r < registers; r++) {
        levels[r] = rectified ? pillion_scale_rectified(sums[r], s->even[r], s->odd[r], s->half[r], s->right[r])
                              : pillion_scale(sums[r], s->even[r], s->odd[r], s->half[r], s->right[r]);
    }
    pillion_store_some(y, pillion_narrow(levels, s->zp, s->low, s->high), s->count);
}

/* How many registers of sums so many channels take. */
PILLION_INLINE int32_t pillion_registers(int32_t channels) {
    return (channels + PILLION_LANES - 1) / PILLION_LANES;
}

#endif

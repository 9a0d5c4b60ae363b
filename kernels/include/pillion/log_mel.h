/* SPDX-License-Identifier: Apache-2.0
 * Spectra, and logarithms of mel spectra: the parts that all kernels share. Definition: ops/frames.py and ops/fixed_fft.py. Complex
 * numbers are pairs of words. Before including this, a kernel defines PILLION_LOW(x, w) and PILLION_HIGH(x, w), the product
 * of x and the lower or upper half of w, / 2^16, PILLION_ADD_HIGH(sum, x, w) and PILLION_SQUARES(re, im), the sum of both
 * squares / 2^32, each rounded. */
#ifndef PILLION_LOG_MEL_H
#define PILLION_LOG_MEL_H

#include "pillion/kernels.h"
#include "pillion/requantize.h"

typedef struct {
    int32_t re, im;
} pillion_complex;

PILLION_INLINE int32_t pillion_less(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Adds the bits in which x differs from its lower neighbour; the highest one says how far x may move left. */
PILLION_INLINE uint32_t pillion_see(uint32_t seen, int32_t x) {
    return seen | ((uint32_t)x ^ (uint32_t)x << 1);
}

/* The largest left shift of 32-bit numbers, from their combined magnitudes. */
PILLION_INLINE int32_t pillion_headroom(uint32_t seen) {
    return pillion_leading_zeros(seen | 1);
}

/* The largest left shift of pairs of 16-bit numbers, from words of both. */
PILLION_INLINE int32_t pillion_headroom_of_pairs(uint32_t seen) {
    return pillion_leading_zeros(((seen >> 16 | seen) & 0xFFFE) << 16 | 0x10000);
}

/* One stage of the FFT: y[stride * (4p + k) + q] = twiddle(k * p) * DFT of the four x[stride * (p + i * points / 4) + q]. */
PILLION_APART const int32_t *pillion_radix4_stage(const pillion_complex *x, pillion_complex *y, int32_t points,
                                                   int32_t stride, const int32_t *twiddles) {
    const int32_t quarter = points / 4 * stride;
    for (int32_t p = 0; p < points / 4; p++, twiddles += 3, y += 3 * stride) {
        const int32_t w1 = twiddles[0], w2 = twiddles[1], w3 = twiddles[2];
        for (int32_t q = 0; q < stride; q++, x++, y++) {
            const pillion_complex a = x[0], b = x[quarter], c = x[2 * quarter], d = x[3 * quarter];
            const int32_t sum_re = a.re + c.re, sum_im = a.im + c.im, less_re = a.re - c.re, less_im = a.im - c.im;
            const int32_t other_re = b.re + d.re, other_im = b.im + d.im, turn_re = d.im - b.im, turn_im = b.re - d.re;
            const int32_t re1 = less_re - turn_re, im1 = less_im - turn_im;
            const int32_t re2 = sum_re - other_re, im2 = sum_im - other_im;
            const int32_t re3 = less_re + turn_re, im3 = less_im + turn_im;
            const pillion_complex y0 = {(sum_re + other_re) >> 2, (sum_im + other_im) >> 2};
            const pillion_complex y1 = {PILLION_ADD_HIGH(PILLION_LOW(re1, w1), im1, w1), PILLION_LOW(im1, w1) - PILLION_HIGH(re1, w1)};
            const pillion_complex y2 = {PILLION_ADD_HIGH(PILLION_LOW(re2, w2), im2, w2), PILLION_LOW(im2, w2) - PILLION_HIGH(re2, w2)};
            const pillion_complex y3 = {PILLION_ADD_HIGH(PILLION_LOW(re3, w3), im3, w3), PILLION_LOW(im3, w3) - PILLION_HIGH(re3, w3)};
            y[0] = y0;
            y[stride] = y1;
            y[2 * stride] = y2;
            y[3 * stride] = y3;
        }
    }
    return twiddles;
}

/* The last stage if the number of points is no power of four. */
PILLION_APART void pillion_radix2_stage(const pillion_complex *x, pillion_complex *y, int32_t stride) {
    for (int32_t q = 0; q < stride; q++) {
        const pillion_complex a = x[q], b = x[q + stride];
        y[q].re = (a.re + b.re) >> 1;
        y[q].im = (a.im + b.im) >> 1;
        y[q + stride].re = (a.re - b.re) >> 1;
        y[q + stride].im = (a.im - b.im) >> 1;
    }
}

/* Makes of the spectrum z of pairs, in place, that of the samples; the last one, which is real, becomes the imaginary part of
 * the first one. Returns the differences between neighbouring bits. */
PILLION_APART uint32_t pillion_split(pillion_complex *z, int32_t half, const int32_t *twiddles) {
    const int32_t first = z[0].re, last = z[0].im;
    uint32_t seen = 0;
    z[0].re = first + last;
    z[0].im = first - last;
    seen = pillion_see(seen, z[0].re);
    seen = pillion_see(seen, z[0].im);
    seen = pillion_see(seen, z[half / 2].re);
    seen = pillion_see(seen, z[half / 2].im);
    pillion_complex *left = z + 1, *right = z + half - 1;
    for (; left < right; left++, right--) {
        const pillion_complex a = *left, b = *right;
        const int32_t w = *twiddles++, odd_re = a.re - b.re, odd_im = a.im + b.im;
        const int32_t turned_re = PILLION_LOW(odd_im, w) - PILLION_HIGH(odd_re, w);
        const int32_t turned_im = PILLION_ADD_HIGH(PILLION_LOW(odd_re, w), odd_im, w);
        const int32_t even_re = (a.re + b.re) >> 1, even_im = (a.im - b.im) >> 1;
        const pillion_complex lower = {even_re + turned_re, even_im - turned_im};
        const pillion_complex upper = {even_re - turned_re, even_im + turned_im};
        seen = pillion_see(seen, lower.re);
        seen = pillion_see(seen, lower.im);
        seen = pillion_see(seen, upper.re);
        seen = pillion_see(seen, upper.im);
        *left = lower;
        *right = upper;
    }
    return seen;
}

/* How far the samples of a frame may move left. */
PILLION_APART int32_t pillion_frame_headroom(const int16_t *x, int32_t count) {
    uint32_t seen = 0;
    for (int32_t i = 0; i < count; i++) {
        seen = pillion_see(seen, x[i]);
    }
    return pillion_headroom_of_pairs(seen & 0xFFFF);
}

/* Products with the window, shifted up, and zeros behind them. */
PILLION_APART void pillion_window(const int16_t *w, int32_t count, int32_t points, const int16_t *x, int32_t up, int32_t *y) {
    int32_t i = 0;
    for (; i < count; i++) {
        y[i] = (int32_t)((uint32_t)(x[i] * w[i]) << up);
    }
    for (; i < points; i++) {
        y[i] = 0;
    }
}

/* Powers of the half + 1 numbers of a spectrum. */
PILLION_APART void pillion_power(const pillion_complex *x, int32_t half, int32_t more, uint32_t *y) {
    y[half] = PILLION_SQUARES((int32_t)((uint32_t)x[0].im << more), 0);
    y[0] = PILLION_SQUARES((int32_t)((uint32_t)x[0].re << more), 0);
    for (int32_t k = 1; k < half; k++) {
        y[k] = PILLION_SQUARES((int32_t)((uint32_t)x[k].re << more), (int32_t)((uint32_t)x[k].im << more));
    }
}

/* The square roots of numbers, with 6 fraction bits, in place; that of 0 is that of 1. */
PILLION_APART void pillion_roots(uint32_t *x, int32_t count, const int32_t *table) {
    for (uint32_t *const end = x + count; x < end; x++) {
        const uint32_t least = *x ? *x : 1;
        const int32_t zeros = pillion_leading_zeros(least) & ~1;
        const uint32_t mantissa = least << zeros;
        const int32_t *entry = table + ((mantissa >> 24) - 64);
        const int32_t part = (int32_t)(mantissa >> 8 & 0xFFFF);
        *x = (uint32_t)((entry[0] + (((entry[1] - entry[0]) * part) >> 16)) >> (zeros / 2));
    }
}

/* How a frame makes results of upper halves of products. */
typedef struct {
    int32_t right, half, out_zp, low, high, is_bytes;
} pillion_level_line;

PILLION_INLINE pillion_level_line pillion_level_line_of(const pillion_stft_params *p, int32_t right) {
    const pillion_level_line line = {right,  right < 0 ? 0 : (int32_t)(1u << right >> 1), p->out_zp, p->low,
                                     p->high, p->y_bytes == 1};
    return line;
}

PILLION_INLINE void pillion_put_level(pillion_level_line line, int32_t scaled, void *y, int32_t at) {
    const int32_t moved = line.right < 0 ? pillion_clamp(scaled, -32767, 32767) * (1 << pillion_less(-line.right, 16))
                                         : (scaled + line.half) >> line.right;
    const int32_t level = pillion_clamp(moved + line.out_zp, line.low, line.high);
    if (line.is_bytes) {
        ((int8_t *)y)[at] = (int8_t)level;
    } else {
        ((int16_t *)y)[at] = (int16_t)level;
    }
}

/* Results from magnitudes or their squares. */
PILLION_APART void pillion_levels(const pillion_stft_params *p, const uint32_t *x, int32_t count, int32_t right, void *y) {
    const pillion_level_line line = pillion_level_line_of(p, right);
    const uint32_t multiplier = (uint32_t)p->multiplier;
    for (int32_t i = 0; i < count; i++) {
        pillion_put_level(line, (int32_t)(((uint64_t)x[i] * multiplier + 0x80000000u) >> 32), y, i);
    }
}

/* The upper half of a product of a part that moves left by `more`. */
PILLION_INLINE int32_t pillion_scaled_part(int32_t x, int32_t multiplier, int32_t more) {
    return (int32_t)(((int64_t)(int32_t)((uint32_t)x << more) * multiplier + INT64_C(0x80000000)) >> 32);
}

/* The numbers that are real, first and last: the last one is the imaginary part of the first one. */
PILLION_INLINE void pillion_put_ends(const pillion_stft_params *p, int32_t last, int32_t half, int32_t more, int32_t right, void *y) {
    const pillion_level_line line = pillion_level_line_of(p, right);
    pillion_put_level(line, 0, y, 1);
    pillion_put_level(line, pillion_scaled_part(last, p->multiplier, more), y, 2 * half);
    pillion_put_level(line, 0, y, 2 * half + 1);
}

/* Pairs from the half + 1 numbers of a spectrum, whose upper half has negated imaginary parts. */
PILLION_APART void pillion_pairs(const pillion_stft_params *p, const pillion_complex *x, int32_t half, int32_t more,
                                 int32_t right, void *y) {
    const pillion_level_line line = pillion_level_line_of(p, right);
    const int32_t multiplier = p->multiplier;
    for (int32_t k = 0; k < half; k++) {
        pillion_put_level(line, pillion_scaled_part(x[k].re, multiplier, more), y, 2 * k);
        pillion_put_level(line, pillion_scaled_part(x[k].im, k < half / 2 ? multiplier : -multiplier, more), y, 2 * k + 1);
    }
    pillion_put_ends(p, x[0].im, half, more, right, y);
}

PILLION_INLINE uint64_t pillion_weighted_sum(const uint32_t *power, const uint16_t *weights, int32_t count) {
    uint64_t sum = 0;
    for (; count > 0; count--) {
        sum += (uint64_t)*power++ * *weights++;
    }
    return sum;
}

/* mantissa * 2^exponent */
PILLION_INLINE uint64_t pillion_in_units(int32_t mantissa, int32_t exponent) {
    const uint64_t whole = (uint64_t)(uint32_t)mantissa;
    return exponent > 0 ? whole << exponent : exponent < -63 ? 0 : whole >> -exponent;
}

/* The logarithm to base 2 of x > 0, with 16 fraction bits. */
PILLION_INLINE int32_t pillion_log2(uint64_t x, const int32_t *table) {
    uint32_t high = (uint32_t)(x >> 32), low = (uint32_t)x;
    int32_t whole = 63;
    if (!high) {
        high = low;
        low = 0;
        whole = 31;
    }
    const int32_t zeros = pillion_leading_zeros(high);
    const uint32_t mantissa = high << zeros | low >> 1 >> (31 - zeros);
    const int32_t *entry = table + (mantissa >> 26 & 31);
    const int32_t part = (int32_t)(mantissa >> 10 & 0xFFFF);
    return (whole - zeros) * 65536 + entry[0] + (((entry[1] - entry[0]) * part) >> 16);
}

/* How a frame makes results of its sums and their logarithms, and the results themselves: factor * log2 + constant. */
typedef struct {
    uint64_t offset, floor;
    int64_t constant;
    int32_t factor;
} pillion_log_line;

PILLION_INLINE pillion_log_line pillion_log_line_of(const pillion_log_mel_params *p, int32_t exponent) {
    const uint64_t constant = (uint64_t)(uint32_t)p->constant_high << 32 | (uint32_t)p->constant_low;
    const uint64_t floor = pillion_in_units(p->floor, p->floor_exponent + exponent);
    const pillion_log_line line = {
        pillion_in_units(p->offset, p->offset_exponent + exponent),
        floor ? floor : 1,
        (int64_t)(constant - (uint64_t)((int64_t)exponent * 65536 * p->factor)),
        p->factor,
    };
    return line;
}

/* The results of a frame from its powers, which share an exponent. */
PILLION_APART void pillion_log_bands(const pillion_log_mel_params *p, const uint32_t *power, int32_t exponent, void *y) {
    const pillion_log_line line = pillion_log_line_of(p, exponent);
    const int32_t *const table = p->logarithms, low = p->low, high = p->high, is_bytes = p->y_bytes == 1;
    const uint16_t *weights = p->weights;
    const int16_t *span = p->spans, *const end = span + 2 * p->bands;
    int8_t *bytes = y;
    int16_t *words = y;
    for (; span < end; span += 2) {
        const int32_t count = span[1];
        const uint64_t sum = pillion_weighted_sum(power + span[0], weights, count) + line.offset;
        const int32_t found = pillion_log2(sum < line.floor ? line.floor : sum, table);
        const int32_t result = pillion_clamp((int32_t)(((int64_t)found * line.factor + line.constant) >> 32), low, high);
        weights += count;
        if (is_bytes) {
            *bytes++ = (int8_t)result;
        } else {
            *words++ = (int16_t)result;
        }
    }
}

#endif

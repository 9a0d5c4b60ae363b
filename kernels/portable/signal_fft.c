/* SPDX-License-Identifier: Apache-2.0
 * A real FFT of 16-bit samples and back. Each stage divides by its radix, products are rounded to 16 bits, sums wrap.
 * Definition: ops/fft16.py. */
#include "pillion/requantize.h"
#include "pillion/signal.h"

typedef struct {
    int16_t re, im;
} pair;

typedef struct {
    int32_t re, im;
} sum;

PILLION_INLINE int32_t rounded(int32_t x) {
    return (x + (1 << 14)) >> 15;
}

/* x / radix, a little less. */
PILLION_INLINE sum share(pair x, int32_t radix) {
    return (sum){rounded(x.re * (INT16_MAX / radix)), rounded(x.im * (INT16_MAX / radix))};
}

PILLION_INLINE pair wrapped(int32_t re, int32_t im) {
    return (pair){(int16_t)re, (int16_t)im};
}

/* x * w, or * its conjugate if the sign is -1. */
PILLION_INLINE sum turned(sum x, pair w, int32_t sign) {
    const int32_t sine = sign * w.im;
    return (sum){(int16_t)rounded(x.re * w.re - x.im * sine), (int16_t)rounded(x.re * sine + x.im * w.re)};
}

/* The transform of four numbers that lie `apart`; without twiddles they are not turned, which changes nothing. */
PILLION_INLINE void butterfly(pair *z, int32_t apart, const pair *w, int32_t step, int32_t sign) {
    const sum a = share(z[0], 4);
    sum b = share(z[apart], 4), c = share(z[2 * apart], 4), d = share(z[3 * apart], 4);
    if (w) {
        b = turned(b, w[step], sign);
        c = turned(c, w[2 * step], sign);
        d = turned(d, w[3 * step], sign);
    }
    const sum even = {a.re + c.re, a.im + c.im}, less = {a.re - c.re, a.im - c.im};
    const sum odd = {b.re + d.re, b.im + d.im}, turn = {sign * (b.im - d.im), -sign * (b.re - d.re)};
    z[0] = wrapped(even.re + odd.re, even.im + odd.im);
    z[apart] = wrapped(less.re + turn.re, less.im + turn.im);
    z[2 * apart] = wrapped(even.re - odd.re, even.im - odd.im);
    z[3 * apart] = wrapped(less.re - turn.re, less.im - turn.im);
}

/* 4, or 2 if the length is no power of 4. */
static int32_t first_radix(int32_t count) {
    while (count > 2) {
        count >>= 2;
    }
    return count == 2 ? 2 : 4;
}

/* All stages, on numbers in the order of reversed digits. */
PILLION_INLINE void stages(pair *z, int32_t count, const pair *twiddles, int32_t sign) {
    int32_t apart = 1;
    if (first_radix(count) == 2) {
        apart = 2;
        for (pair *at = z; at != z + count; at += 2) {
            const sum a = share(at[0], 2), b = share(at[1], 2);
            at[0] = wrapped(a.re + b.re, a.im + b.im);
            at[1] = wrapped(a.re - b.re, a.im - b.im);
        }
    }
    for (; apart < count; apart *= 4) {
        const int32_t step = count / (4 * apart);
        for (int32_t first = 0; first < count; first += 4 * apart) {
            butterfly(z + first, apart, (const pair *)0, 0, sign);
        }
        for (int32_t k = 1; k < apart; k++) {
            for (int32_t first = k; first < count; first += 4 * apart) {
                butterfly(z + first, apart, twiddles, k * step, sign);
            }
        }
    }
}

/* The place of the number behind that at `place`, in the order in which digits are reversed: the highest digit of base 4
 * counts first, or before it the highest bit if the length is no power of 4. */
PILLION_INLINE int32_t place_after(int32_t place, int32_t count, int32_t radix) {
    int32_t end = count, step = count / radix;
    for (place += step; place >= end && step > 1; place += step) {
        place -= end;
        end = step;
        step /= 4;
    }
    return place;
}

void pillion_signal_rfft(const pillion_signal_rfft_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t count = p->points / 2, radix = first_radix(count);
    const pair *const split = (const pair *)(const void *)p->split;
    for (int32_t row = 0; row < p->rows; row++, x += p->count, y += p->points + 2) {
        pair *const z = (pair *)(void *)y;
        for (int32_t i = 0, place = 0; i < count; i++, place = place_after(place, count, radix)) {
            const int32_t at = 2 * place;
            z[i] = wrapped(at < p->count ? x[at] : 0, at + 1 < p->count ? x[at + 1] : 0);
        }
        stages(z, count, (const pair *)(const void *)p->twiddles, 1);
        const sum ends = share(z[0], 2);
        z[0] = wrapped(ends.re + ends.im, 0);
        z[count] = wrapped(ends.re - ends.im, 0);
        for (int32_t k = 1; k <= count / 2; k++) {
            const sum a = share(z[k], 2), b = share(wrapped(z[count - k].re, -z[count - k].im), 2);
            const sum all = {a.re + b.re, a.im + b.im};
            const sum turn = turned((sum){a.re - b.re, a.im - b.im}, split[k - 1], 1);
            z[k] = wrapped((all.re + turn.re) >> 1, (all.im + turn.im) >> 1);
            z[count - k] = wrapped((all.re - turn.re) >> 1, (turn.im - all.im) >> 1);
        }
    }
}

void pillion_signal_irfft(const pillion_signal_irfft_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t count = p->points / 2, radix = first_radix(count);
    const pair *const split = (const pair *)(const void *)p->split;
    pair *const spectrum = (pair *)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->points + 2, y += p->points) {
        const pair *const from = (const pair *)(const void *)x;
        pair *const z = (pair *)(void *)y;
        const sum ends = share(wrapped(from[0].re + from[count].re, from[0].re - from[count].re), 2);
        spectrum[0] = wrapped(ends.re, ends.im);
        for (int32_t k = 1; k <= count / 2; k++) {
            const sum a = share(from[k], 2), b = share(wrapped(from[count - k].re, -from[count - k].im), 2);
            const sum all = {a.re + b.re, a.im + b.im};
            const sum turn = turned((sum){a.re - b.re, a.im - b.im}, split[k - 1], -1);
            spectrum[k] = wrapped(all.re + turn.re, all.im + turn.im);
            spectrum[count - k] = wrapped(all.re - turn.re, turn.im - all.im);
        }
        for (int32_t i = 0, place = 0; i < count; i++, place = place_after(place, count, radix)) {
            z[i] = spectrum[place];
        }
        stages(z, count, (const pair *)(const void *)p->twiddles, -1);
    }
}

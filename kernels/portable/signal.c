/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/signal.h"
#include "pillion/fixed16.h"

void pillion_signal_window(const pillion_signal_window_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++) {
            *y++ = (int16_t)pillion_saturate16(*x++ * p->table[i] >> p->shift);
        }
    }
}

void pillion_signal_headroom(const pillion_signal_headroom_params *p, const int16_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    int32_t largest = 0, room = 15;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t sample = x[i], less = -sample;
        if (sample > largest) {
            largest = sample;
        } else if (less > largest) {
            largest = (int16_t)less; /* that of -32768 is negative */
        }
    }
    for (int32_t rest = largest; rest > 0; rest >>= 1) {
        room--;
    }
    *y = largest > 0 ? room : 0;
}

void pillion_signal_shift(const pillion_signal_shift_params *p, const int16_t *x, const int32_t *amount, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t factor = (uint32_t)*amount < 16 ? (int32_t)(1 << *amount) : 0;
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = (int16_t)(x[i] * factor);
    }
}

void pillion_signal_energy(const pillion_signal_energy_params *p, const int16_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++, x += 2) {
        const int32_t re = x[0], im = x[1];
        const uint32_t sum = (uint32_t)(re * re) + (uint32_t)(im * im);
        y[i] = i >= p->start_index && i < p->end_index ? (int32_t)sum : 0;
    }
}

void pillion_signal_filter_bank(const pillion_signal_filter_bank_params *p, const int32_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    const uint16_t *weights = p->weights;
    for (int32_t band = 0; band < p->bands; band++) {
        const int32_t *from = x + p->spans[2 * band];
        uint64_t sum = 0;
        for (int32_t left = p->spans[2 * band + 1]; left > 0; left--) {
            sum += (uint64_t)*weights++ * (uint32_t)*from++;
        }
        *y++ = (int32_t)(uint32_t)sum;
        *y++ = (int32_t)(uint32_t)(sum >> 32);
    }
}

static uint32_t bits_of(uint32_t x) {
    uint32_t bits = 0;
#if defined(__GNUC__)
    bits = x ? 32 - (uint32_t)__builtin_clz(x) : 0;
#else
    for (; x; x >>= 1) {
        bits++;
    }
#endif
    return bits;
}

/* The rounded root of a number of 64 bits, bit by bit. Roots of 16 bits that are all ones are not rounded up, nor are those of 32. */
static uint32_t root_of(uint32_t high, uint32_t low) {
    const uint32_t top = high ? 31 + bits_of(high) : bits_of(low | 1) - 1, largest = high ? UINT32_MAX : UINT16_MAX;
    uint64_t number = (uint64_t)high << 32 | low, root = 0;
    for (uint64_t bit = UINT64_C(1) << (top & ~UINT32_C(1)); bit; bit >>= 2) {
        const uint64_t more = root + bit;
        root >>= 1;
        if (number >= more) {
            number -= more;
            root += bit;
        }
    }
    return (uint32_t)root + (number > root && root != largest);
}

void pillion_signal_square_root(const pillion_signal_square_root_params *p, const int32_t *x, const int32_t *amount, int32_t *y,
                                void *scratch) {
    (void)scratch;
    const uint32_t places = (uint32_t)*amount;
    for (int32_t i = 0; i < p->count; i++, x += 2) {
        const uint32_t root = root_of((uint32_t)x[1], (uint32_t)x[0]);
        y[i] = places < 32 ? (int32_t)(root >> places) : 0;
    }
}

void pillion_signal_noise(const pillion_signal_noise_params *p, const int32_t *x, const int32_t *before, int32_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const uint32_t share = (uint32_t)(i & 1 ? p->alternate_smoothing : p->smoothing);
        const uint32_t rest = (uint32_t)(i & 1 ? p->alternate_one_minus_smoothing : p->one_minus_smoothing);
        const uint32_t scaled = (uint32_t)x[i] << p->smoothing_bits;
        const uint64_t sum = (uint64_t)scaled * share + (uint64_t)(uint32_t)before[i] * rest;
        const uint32_t level = (uint32_t)(sum >> p->spectral_subtraction_bits);
        y[i] = (int32_t)(p->clamping && level > scaled ? scaled : level);
    }
}

void pillion_signal_subtraction(const pillion_signal_subtraction_params *p, const int32_t *x, const int32_t *noise, int32_t *y,
                                void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const uint32_t scaled = (uint32_t)x[i] << p->smoothing_bits, level = (uint32_t)noise[i];
        const uint64_t share = (uint64_t)(uint32_t)x[i] * (uint32_t)p->min_signal_remaining;
        const uint32_t least = (uint32_t)(share >> p->spectral_subtraction_bits);
        const uint32_t rest = scaled > level ? (scaled - level) >> p->smoothing_bits : 0;
        y[i] = (int32_t)(rest > least ? rest : least);
    }
}

#define SNR_BITS 12 /* behind the point of a ratio */
#define GAIN_BITS 6 /* and of the result */

void pillion_signal_pcan(const pillion_signal_pcan_params *p, const int32_t *x, const int32_t *noise, int32_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const uint32_t level = (uint32_t)noise[i];
        int16_t gain = p->table[level & 3];
        if (level > 2) {
            const uint32_t bits = bits_of(level);
            const int16_t *const curve = p->table + 4 * bits - 6;
            const int32_t part = (int32_t)((bits < 11 ? level << (11 - bits) : level >> (bits - 11)) & 0x3FF);
            const int32_t slope = (curve[2] * part >> 5) + curve[1] * 32;
            const uint32_t curved = (uint32_t)slope * (uint32_t)part + (1u << 14); /* may wrap above the 16 bits that are used */
            gain = (int16_t)(((int32_t)curved >> 15) + curve[0]);
        }
        const uint32_t factor = (uint32_t)gain, ratio = (uint32_t)((uint64_t)(uint32_t)x[i] * factor >> p->snr_shift);
        const uint32_t small = ratio * ratio >> (2 + 2 * SNR_BITS - GAIN_BITS);
        y[i] = (int32_t)(ratio < 2u << SNR_BITS ? small : (ratio >> (SNR_BITS - GAIN_BITS)) - (1u << GAIN_BITS));
    }
}

#define LOG2_E 45426 /* the natural logarithm of 2, in units of 2^-16 */

void pillion_signal_log(const pillion_signal_log_params *p, const int32_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const uint32_t scaled = (uint32_t)x[i] << p->input_correction_bits;
        uint32_t level = 0;
        if (scaled > 1) {
            const uint32_t whole = bits_of(scaled) - 1, rest = scaled - (UINT32_C(1) << whole);
            const uint32_t part = whole < 16 ? rest << (16 - whole) : rest >> (whole - 16);
            const int16_t *const at = p->table + (part >> 9);
            const int32_t slope = (at[1] - at[0]) * (int32_t)(part & 0x1FF) >> 16;
            const uint32_t binary = (whole << 16) + part + (uint32_t)(at[0] + slope);
            const uint32_t natural = (uint32_t)(((uint64_t)binary * LOG2_E + (1 << 15)) >> 16);
            level = (natural * (uint32_t)p->output_scale + (1 << 15)) >> 16;
        }
        y[i] = (int16_t)(level < INT16_MAX ? level : INT16_MAX);
    }
}

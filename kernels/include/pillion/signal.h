/* SPDX-License-Identifier: Apache-2.0
 * The stages of TensorFlow Lite Micro's sound features. Numbers of 32 bits have no sign, whatever their type says. As kernels.h
 * says, which includes this file. Definition: ops/signal_stages.py. */
#ifndef PILLION_SIGNAL_H
#define PILLION_SIGNAL_H

#include <stdint.h>

/* y = (x * table) >> shift, saturated, of rows as long as the table. */
typedef struct {
    int32_t rows, count, shift;
    const int16_t *table;
} pillion_signal_window_params;
void pillion_signal_window(const pillion_signal_window_params *p, const int16_t *x, int16_t *y, void *scratch);

/* By how many bits the largest of all samples may move left, and samples moved left by y. */
typedef struct {
    int32_t count;
} pillion_signal_headroom_params;
typedef pillion_signal_headroom_params pillion_signal_shift_params;
void pillion_signal_headroom(const pillion_signal_headroom_params *p, const int16_t *x, int32_t *y, void *scratch);
void pillion_signal_shift(const pillion_signal_shift_params *p, const int16_t *x, const int32_t *amount, int16_t *y, void *scratch);

/* Spectra [points / 2 + 1][2] of rows of samples, with zeros behind them, and back. */
typedef struct {
    int32_t rows, count, points;
    const int16_t *twiddles; /* [points / 2][2]: cosine and sine */
    const int16_t *split;    /* [points / 4][2] */
} pillion_signal_rfft_params;
typedef pillion_signal_rfft_params pillion_signal_irfft_params;
void pillion_signal_rfft(const pillion_signal_rfft_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_signal_irfft(const pillion_signal_irfft_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Squares of real parts and of imaginary parts, added, of bins from `start_index` to `end_index`; the others are 0. */
typedef struct {
    int32_t count, start_index, end_index;
} pillion_signal_energy_params;
void pillion_signal_energy(const pillion_signal_energy_params *p, const int16_t *x, int32_t *y, void *scratch);

/* Sums of weighted energies, of 64 bits, as pairs of words. */
typedef struct {
    int32_t bands;
    const uint16_t *weights; /* of all bands */
    const int16_t *spans;    /* [bands][2]: first energy and number */
} pillion_signal_filter_bank_params;
void pillion_signal_filter_bank(const pillion_signal_filter_bank_params *p, const int32_t *x, int32_t *y, void *scratch);

/* Rounded square roots of such sums, moved right by `amount`. */
typedef struct {
    int32_t count;
} pillion_signal_square_root_params;
void pillion_signal_square_root(const pillion_signal_square_root_params *p, const int32_t *x, const int32_t *amount, int32_t *y,
                                void *scratch);

/* The level of each band: y = (x << smoothing_bits) * share + before * rest, / 2^spectral_subtraction_bits. */
typedef struct {
    int32_t count, smoothing, one_minus_smoothing, alternate_smoothing, alternate_one_minus_smoothing;
    int32_t smoothing_bits, spectral_subtraction_bits, clamping;
} pillion_signal_noise_params;
void pillion_signal_noise(const pillion_signal_noise_params *p, const int32_t *x, const int32_t *before, int32_t *y, void *scratch);

/* y = x less its level, a share of x at least. */
typedef struct {
    int32_t count, min_signal_remaining, smoothing_bits, spectral_subtraction_bits;
} pillion_signal_subtraction_params;
void pillion_signal_subtraction(const pillion_signal_subtraction_params *p, const int32_t *x, const int32_t *noise, int32_t *y,
                                void *scratch);

/* y = shrink(x * gain(noise) / 2^snr_shift); the gain is a curve for each power of two. */
typedef struct {
    int32_t count, snr_shift;
    const int16_t *table; /* [125] */
} pillion_signal_pcan_params;
void pillion_signal_pcan(const pillion_signal_pcan_params *p, const int32_t *x, const int32_t *noise, int32_t *y, void *scratch);

/* y = output_scale * ln(x << input_correction_bits), at most 32767. */
typedef struct {
    int32_t count, input_correction_bits, output_scale;
    const int16_t *table; /* [129]: the difference between log2 and its linear interpolation between powers of two */
} pillion_signal_log_params;
void pillion_signal_log(const pillion_signal_log_params *p, const int32_t *x, int16_t *y, void *scratch);

#endif

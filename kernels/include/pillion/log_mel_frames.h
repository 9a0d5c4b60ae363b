/* SPDX-License-Identifier: Apache-2.0
 * The frames of log_mel.h. A kernel that has a step of its own defines its macro before. */
#ifndef PILLION_LOG_MEL_FRAMES_H
#define PILLION_LOG_MEL_FRAMES_H

#include "pillion/log_mel.h"

#if !defined(PILLION_FRAME_HEADROOM)
#define PILLION_FRAME_HEADROOM pillion_frame_headroom
#endif
#if !defined(PILLION_WINDOW)
#define PILLION_WINDOW pillion_window
#endif
#if !defined(PILLION_STAGE)
#define PILLION_STAGE pillion_radix4_stage
#endif
#if !defined(PILLION_RADIX2_STAGE)
#define PILLION_RADIX2_STAGE pillion_radix2_stage
#endif
#if !defined(PILLION_SPLIT)
#define PILLION_SPLIT pillion_split
#endif
#if !defined(PILLION_POWER)
#define PILLION_POWER pillion_power
#endif
#if !defined(PILLION_ROOTS)
#define PILLION_ROOTS pillion_roots
#endif
#if !defined(PILLION_LEVELS)
#define PILLION_LEVELS pillion_levels
#endif
#if !defined(PILLION_PAIRS)
#define PILLION_PAIRS pillion_pairs
#endif
#if !defined(PILLION_LOG_BANDS)
#define PILLION_LOG_BANDS pillion_log_bands
#endif

/* The spectrum of a frame, half a frame of complex numbers, and the row of as many behind or before it; how far samples moved left,
 * and how far the spectrum may still move. */
typedef struct {
    pillion_complex *numbers;
    void *row;
    int32_t up, more;
} pillion_spectrum;

/* scratch is two rows of points / 2 complex numbers. */
PILLION_INLINE pillion_spectrum pillion_spectrum_of(const int16_t *frame, const int16_t *weights, int32_t count, int32_t points,
                                                    int32_t most_shifted, const int32_t *twiddles, void *scratch) {
    const int32_t half = points / 2, up = pillion_less(pillion_less(PILLION_FRAME_HEADROOM(frame, count), 15), most_shifted);
    pillion_complex *here = scratch, *there = here + half, *swapped;
    PILLION_WINDOW(weights, count, points, frame, up, (int32_t *)here);
    int32_t stride = 1;
    for (int32_t length = half; length >= 4; length /= 4, stride *= 4) {
        twiddles = PILLION_STAGE(here, there, length, stride, twiddles);
        swapped = here;
        here = there;
        there = swapped;
    }
    if (stride < half) {
        PILLION_RADIX2_STAGE(here, there, stride);
        swapped = here;
        here = there;
        there = swapped;
    }
    const uint32_t seen = PILLION_SPLIT(here, half, twiddles);
    const pillion_spectrum made = {here, there, up, pillion_less(pillion_headroom(seen), most_shifted - up)};
    return made;
}

/* All frames of all signals. */
PILLION_INLINE void pillion_log_mel_frames(const pillion_log_mel_params *p, const int16_t *x, void *y, void *scratch) {
    const int32_t half = p->points / 2;
    for (int32_t row = 0; row < p->batch * p->frames; row++) {
        const int16_t *frame = x + row / p->frames * p->samples + row % p->frames * p->hop;
        const pillion_spectrum s =
            pillion_spectrum_of(frame, p->window, p->count, p->points, p->most_shifted, p->twiddles, scratch);
        PILLION_POWER(s.numbers, half, s.more, s.row);
        if (p->power == 1) {
            PILLION_ROOTS(s.row, half + 1, p->roots);
        }
        PILLION_LOG_BANDS(p, s.row, p->power * (s.up + s.more), (int8_t *)y + row * p->bands * p->y_bytes);
    }
}

PILLION_INLINE void pillion_stft_frames(const pillion_stft_params *p, const int16_t *x, void *y, void *scratch) {
    const int32_t half = p->points / 2, size = (half + 1) * (p->power ? 1 : 2) * p->y_bytes;
    for (int32_t row = 0; row < p->batch * p->frames; row++, y = (int8_t *)y + size) {
        const int16_t *frame = x + row / p->frames * p->samples + row % p->frames * p->hop;
        const pillion_spectrum s =
            pillion_spectrum_of(frame, p->window, p->count, p->points, p->most_shifted, p->twiddles, scratch);
        const int32_t shifts = (p->power == 2 ? 2 : 1) * (s.up + s.more), right = pillion_less(p->right + shifts, 31);
        if (!p->power) {
            PILLION_PAIRS(p, s.numbers, half, s.more, right, y);
            continue;
        }
        PILLION_POWER(s.numbers, half, s.more, s.row);
        if (p->power == 1) {
            PILLION_ROOTS(s.row, half + 1, p->roots);
        }
        PILLION_LEVELS(p, s.row, half + 1, right, y);
    }
}

#endif

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
#if !defined(PILLION_LOG_BANDS)
#define PILLION_LOG_BANDS pillion_log_bands
#endif

/* All frames of all signals. scratch is two rows of points / 2 complex numbers. */
PILLION_INLINE void pillion_log_mel_frames(const pillion_log_mel_params *p, const int16_t *x, void *y, void *scratch) {
    const int32_t half = p->points / 2;
    for (int32_t row = 0; row < p->batch * p->frames; row++) {
        const int16_t *frame = x + row / p->frames * p->samples + row % p->frames * p->hop;
        pillion_complex *here = scratch, *there = here + half, *swapped;
        const int32_t up = pillion_less(pillion_less(PILLION_FRAME_HEADROOM(frame, p->count), 15), p->most_shifted);
        PILLION_WINDOW(p, frame, up, (int32_t *)here);
        const int32_t *twiddles = p->twiddles;
        int32_t stride = 1;
        for (int32_t points = half; points >= 4; points /= 4, stride *= 4) {
            twiddles = PILLION_STAGE(here, there, points, stride, twiddles);
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
        const int32_t more = pillion_less(pillion_headroom(seen), p->most_shifted - up);
        PILLION_POWER(here, half, more, (uint32_t *)there);
        PILLION_LOG_BANDS(p, (const uint32_t *)there, 2 * (up + more), (int8_t *)y + row * p->bands * p->y_bytes);
    }
}

#endif

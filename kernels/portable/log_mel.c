/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#define PILLION_LOW(x, w) ((int32_t)(((int64_t)(x) * (int16_t)(w)) >> 16))
#define PILLION_HIGH(x, w) ((int32_t)(((int64_t)(x) * ((w) >> 16)) >> 16))
#define PILLION_ADD_HIGH(sum, x, w) ((sum) + PILLION_HIGH(x, w))
#define PILLION_SQUARES(re, im) (rounded_square(re) + rounded_square(im))

static inline uint32_t rounded_square(int32_t x) {
    return (uint32_t)(((uint64_t)((int64_t)x * x) + (UINT64_C(1) << 31)) >> 32);
}

#include "pillion/log_mel_frames.h"

void pillion_log_mel(const pillion_log_mel_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_log_mel_frames(p, x, y, scratch);
}

void pillion_stft(const pillion_stft_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_stft_frames(p, x, y, scratch);
}

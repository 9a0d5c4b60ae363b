/* SPDX-License-Identifier: Apache-2.0
 * The fused output range, afterwards and in place: the kernels saturate to int8, which is all that most models need. */
#ifndef PILLION_MVE_CLAMP_H
#define PILLION_MVE_CLAMP_H

#include <arm_mve.h>

static inline void pillion_mve_clamp_s8(int8_t *y, int32_t count, int32_t low, int32_t high) {
    if (low <= -128 && high >= 127) {
        return;
    }
    const int8x16_t lows = vdupq_n_s8((int8_t)low), highs = vdupq_n_s8((int8_t)high);
    for (; count > 0; count -= 16, y += 16) {
        const mve_pred16_t p = vctp8q((uint32_t)count);
        vstrbq_p_s8(y, vminq_s8(vmaxq_s8(vldrbq_z_s8(y, p), lows), highs), p);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Means of 16 bits over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], eight results at a time, or one of
 * elements side by side. Requantization as in README.md. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "pillion/requantize.h"

typedef pillion_mean_s16_mve_params params;

static inline int16x8_t rounded(const params *p, int32x4_t sums) {
    const int32x4_t high = vqrdmulhq_n_s32(sums, p->multiplier);
    const int32x4_t whole = vrshlq_n_s32(vqdmlahq_n_s32(high, high, p->fix), p->shift);
    return vqmovnbq_s32(vdupq_n_s16(0), vqaddq_n_s32(whole, p->out_zp));
}

/* Eight neighbouring results; up to `lanes` are wanted. */
static void columns(const params *p, const int16_t *x, int32_t lanes, int16_t *y) {
    int32x4_t first = vdupq_n_s32(-p->reduced * p->in_zp), second = first;
    for (int32_t rows = p->reduced; rows > 0; rows--, x += p->inner) {
        first = vaddq_s32(first, vldrhq_s32(x));
        second = vaddq_s32(second, vldrhq_s32(x + 4));
    }
    vstrhq_p_s32(y, vreinterpretq_s32_s16(rounded(p, first)), vctp32q((uint32_t)lanes));
    if (lanes > 4) {
        vstrhq_p_s32(y + 4, vreinterpretq_s32_s16(rounded(p, second)), vctp32q((uint32_t)lanes - 4));
    }
}

static int16_t mean_of_row(const params *p, const int16_t *x) {
    int32_t sum = -p->reduced * p->in_zp;
    for (int32_t left = p->reduced; left > 0; left -= 8, x += 8) {
        sum = vaddvaq_p_s16(sum, vld1q_s16(x), vctp16q((uint32_t)left));
    }
    const int32_t mean = pillion_requantize(sum, p->multiplier, p->shift), zp = p->out_zp;
    return (int16_t)(pillion_clamp(mean, INT16_MIN - zp, INT16_MAX - zp) + zp);
}

void pillion_mean_s16_mve(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t inner = p->inner;
    (void)scratch;
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * inner, y += inner) {
        if (inner == 1) {
            *y = mean_of_row(p, x);
            continue;
        }
        for (int32_t i = 0; i < inner; i += 8) {
            columns(p, x + i, inner - i, y + i);
        }
    }
}

#endif

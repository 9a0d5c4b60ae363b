/* SPDX-License-Identifier: Apache-2.0
 * Logarithms of mel spectra, four numbers at a time. Twiddles are 2^15 times as large as elsewhere: VQDMULH is then their
 * product / 2^16. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#define PILLION_LOW(x, w) ((int32_t)(((int64_t)(x) * (int16_t)(w)) >> 16))
#define PILLION_HIGH(x, w) ((int32_t)(((int64_t)(x) * ((w) >> 16)) >> 16))
#define PILLION_ADD_HIGH(sum, x, w) ((sum) + PILLION_HIGH(x, w))
#define PILLION_SQUARES(re, im) ((uint32_t)((((int64_t)(re) * (re)) + INT64_C(0x80000000)) >> 32))
#include "pillion/log_mel.h"

typedef struct {
    int32x4_t re, im;
} pair;

/* Real parts and imaginary parts are rows of their own, `row` words apart. */
static inline pair load_pair(const int32_t *x, int32_t row) {
    const pair made = {vld1q_s32(x), vld1q_s32(x + row)};
    return made;
}

static inline void store_pair(int32_t *y, int32_t row, pair x) {
    vst1q_s32(y, x.re);
    vst1q_s32(y + row, x.im);
}

static inline uint32_t any_of(uint32x4_t x) {
    return vgetq_lane_u32(x, 0) | vgetq_lane_u32(x, 1) | vgetq_lane_u32(x, 2) | vgetq_lane_u32(x, 3);
}

static inline uint32x4_t see(uint32x4_t seen, int32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_s32(x);
    return vorrq_u32(seen, veorq_u32(bits, vshlq_n_u32(bits, 1)));
}

static int32_t frame_headroom(const int16_t *x, int32_t count) {
    uint16x8_t seen = vdupq_n_u16(0);
    for (; count > 0; count -= 8, x += 8) {
        const uint16x8_t bits = vreinterpretq_u16_s16(vldrhq_z_s16(x, vctp16q((uint32_t)count)));
        seen = vorrq_u16(seen, veorq_u16(bits, vshlq_n_u16(bits, 1)));
    }
    return pillion_headroom_of_pairs(any_of(vreinterpretq_u32_u16(seen)) & 0xFFFEFFFE);
}

/* Every second product. */
static inline int32x4_t products(const int16_t *x, const int16_t *w, int32_t left, int32_t up) {
    const uint32x4_t two_apart = vidupq_n_u32(0, 2);
    const mve_pred16_t inside = vctp32q((uint32_t)left);
    const int32x4_t samples = vldrhq_gather_shifted_offset_z_s32(x, two_apart, inside);
    const int32x4_t weights = vldrhq_gather_shifted_offset_z_s32(w, two_apart, inside);
    return vshlq_r_s32(vmulq_s32(samples, weights), up);
}

static void window(const pillion_log_mel_params *p, const int16_t *x, int32_t up, int32_t *y) {
    const int16_t *w = p->window;
    const int32_t row = p->points / 2;
    int32_t *const behind = y + row;
    for (int32_t left = p->count; left > 0; left -= 8, x += 8, w += 8, y += 4) {
        const pair made = {products(x, w, (left + 1) / 2, up), products(x + 1, w + 1, left / 2, up)};
        store_pair(y, row, made);
    }
    for (; y < behind; y += 4) {
        const pair zero = {vdupq_n_s32(0), vdupq_n_s32(0)};
        store_pair(y, row, zero);
    }
}

typedef struct {
    pair first, second, third, fourth;
} four;

/* The four results, three of them before their twiddles. */
static inline four butterfly(const int32_t *x, int32_t row) {
    const int32_t quarter = row / 4;
    const pair a = load_pair(x, row), c = load_pair(x + 2 * quarter, row);
    const pair sum = {vaddq_s32(a.re, c.re), vaddq_s32(a.im, c.im)}, less = {vsubq_s32(a.re, c.re), vsubq_s32(a.im, c.im)};
    const pair b = load_pair(x + quarter, row), d = load_pair(x + 3 * quarter, row);
    const pair other = {vaddq_s32(b.re, d.re), vaddq_s32(b.im, d.im)}, turn = {vsubq_s32(d.im, b.im), vsubq_s32(b.re, d.re)};
    const four made = {
        {vshrq_n_s32(vaddq_s32(sum.re, other.re), 2), vshrq_n_s32(vaddq_s32(sum.im, other.im), 2)},
        {vsubq_s32(less.re, turn.re), vsubq_s32(less.im, turn.im)},
        {vsubq_s32(sum.re, other.re), vsubq_s32(sum.im, other.im)},
        {vaddq_s32(less.re, turn.re), vaddq_s32(less.im, turn.im)},
    };
    return made;
}

static inline pair turned(pair x, const int32_t *twiddles) {
    const int32x4_t c = vld1q_s32(twiddles), s = vld1q_s32(twiddles + 4);
    const pair made = {vaddq_s32(vqdmulhq_s32(x.re, c), vqdmulhq_s32(x.im, s)),
                       vsubq_s32(vqdmulhq_s32(x.im, c), vqdmulhq_s32(x.re, s))};
    return made;
}

static inline pair turned_by(pair x, int32_t c, int32_t s) {
    const pair made = {vaddq_s32(vqdmulhq_n_s32(x.re, c), vqdmulhq_n_s32(x.im, s)),
                       vsubq_s32(vqdmulhq_n_s32(x.im, c), vqdmulhq_n_s32(x.re, s))};
    return made;
}

static inline void scatter_pair(int32_t *y, int32_t row, uint32x4_t apart, pair x) {
    vstrwq_scatter_shifted_offset_s32(y, apart, x.re);
    vstrwq_scatter_shifted_offset_s32(y + row, apart, x.im);
}

/* The results of four groups at a time lie four words apart. */
static const int32_t *first_stage(const int32_t *x, int32_t *y, int32_t row, const int32_t *twiddles) {
    for (int32_t left = row; left > 0; left -= 16, x += 4, y += 16, twiddles += 24) {
        const uint32x4_t apart = vidupq_n_u32(0, 4);
        const four made = butterfly(x, row);
        scatter_pair(y, row, apart, made.first);
        scatter_pair(y + 1, row, apart, turned(made.second, twiddles));
        scatter_pair(y + 2, row, apart, turned(made.third, twiddles + 8));
        scatter_pair(y + 3, row, apart, turned(made.fourth, twiddles + 16));
    }
    return twiddles;
}

/* Rounds with the same twiddles. */
static void rounds(const int32_t *x, int32_t *y, int32_t row, int32_t stride, const int32_t *twiddles) {
    const int32_t c1 = twiddles[0], s1 = twiddles[1], c2 = twiddles[2], s2 = twiddles[3], c3 = twiddles[4], s3 = twiddles[5];
    for (int32_t left = stride; left > 0; left -= 4, x += 4, y += 4) {
        const four made = butterfly(x, row);
        store_pair(y, row, made.first);
        store_pair(y + stride, row, turned_by(made.second, c1, s1));
        store_pair(y + 2 * stride, row, turned_by(made.third, c2, s2));
        store_pair(y + 3 * stride, row, turned_by(made.fourth, c3, s3));
    }
}

static inline pair shifted(pair x) {
    const pair made = {vshrq_n_s32(x.re, 2), vshrq_n_s32(x.im, 2)};
    return made;
}

/* Twiddles are 1. */
static void last_stage(const int32_t *x, int32_t *y, int32_t row) {
    const int32_t quarter = row / 4;
    for (int32_t left = quarter; left > 0; left -= 4, x += 4, y += 4) {
        const four made = butterfly(x, row);
        store_pair(y, row, made.first);
        store_pair(y + quarter, row, shifted(made.second));
        store_pair(y + 2 * quarter, row, shifted(made.third));
        store_pair(y + 3 * quarter, row, shifted(made.fourth));
    }
}

static const int32_t *stage(const pillion_complex *from, pillion_complex *to, int32_t points, int32_t stride,
                            const int32_t *twiddles) {
    const int32_t *x = &from->re;
    int32_t *y = &to->re;
    const int32_t groups = points / 4, row = points * stride;
    if (stride == 1) {
        return first_stage(x, y, row, twiddles);
    }
    if (groups == 1) {
        last_stage(x, y, row);
        return twiddles + 6;
    }
    for (int32_t p = 0; p < groups; p++, twiddles += 6, x += stride, y += 4 * stride) {
        rounds(x, y, row, stride, twiddles);
    }
    return twiddles;
}

static void radix2_stage(const pillion_complex *from, pillion_complex *to, int32_t stride) {
    const int32_t *x = &from->re;
    int32_t *y = &to->re;
    const int32_t row = 2 * stride;
    for (int32_t left = stride; left > 0; left -= 4, x += 4, y += 4) {
        const pair a = load_pair(x, row), b = load_pair(x + stride, row);
        const pair sum = {vhaddq_s32(a.re, b.re), vhaddq_s32(a.im, b.im)}, less = {vhsubq_s32(a.re, b.re), vhsubq_s32(a.im, b.im)};
        store_pair(y, row, sum);
        store_pair(y + stride, row, less);
    }
}

/* The twiddle of the middle, where both halves meet, is 0; its number stays. */
static uint32_t split(pillion_complex *z, int32_t row, const int32_t *twiddles) {
    int32_t *re = &z->re, *im = re + row, *left = re + 1, *right = re + row - 4;
    const int32_t first = *re, last = *im, middle = im[row / 2];
    const uint32x4_t down = vddupq_n_u32(3, 1);
    uint32x4_t seen = vdupq_n_u32(0);
    for (; left < right; left += 4, right -= 4, twiddles += 8) {
        const pair a = load_pair(left, row);
        const pair b = {vldrwq_gather_shifted_offset_s32(right, down), vldrwq_gather_shifted_offset_s32(right + row, down)};
        const int32x4_t c = vld1q_s32(twiddles), s = vld1q_s32(twiddles + 4);
        const int32x4_t odd_re = vsubq_s32(a.re, b.re), odd_im = vaddq_s32(a.im, b.im);
        const int32x4_t turned_re = vsubq_s32(vqdmulhq_s32(odd_im, c), vqdmulhq_s32(odd_re, s));
        const int32x4_t turned_im = vaddq_s32(vqdmulhq_s32(odd_re, c), vqdmulhq_s32(odd_im, s));
        const int32x4_t even_re = vhaddq_s32(a.re, b.re), even_im = vhsubq_s32(a.im, b.im);
        const pair lower = {vaddq_s32(even_re, turned_re), vsubq_s32(even_im, turned_im)};
        const pair upper = {vsubq_s32(even_re, turned_re), vaddq_s32(even_im, turned_im)};
        store_pair(left, row, lower);
        scatter_pair(right, row, down, upper);
        seen = see(see(see(see(seen, lower.re), lower.im), upper.re), upper.im);
    }
    *re = first + last;
    *im = first - last;
    im[row / 2] = middle;
    return pillion_see(pillion_see(pillion_see(any_of(seen), *re), *im), middle);
}

static void power(const pillion_complex *z, int32_t row, int32_t more, uint32_t *y) {
    const int32_t *x = &z->re;
    const int32_t first = (int32_t)((uint32_t)x[0] << more), last = (int32_t)((uint32_t)x[row] << more);
    uint32_t *at = y;
    for (int32_t left = row; left > 0; left -= 4, x += 4, at += 4) {
        const int32x4_t re = vshlq_r_s32(vld1q_s32(x), more), im = vshlq_r_s32(vld1q_s32(x + row), more);
        vst1q_u32(at, vreinterpretq_u32_s32(vaddq_s32(vrmulhq_s32(re, re), vrmulhq_s32(im, im))));
    }
    y[0] = PILLION_SQUARES(first, 0);
    y[row] = PILLION_SQUARES(last, 0);
}

static inline uint64_t weighted_sum(const uint32_t *x, const uint16_t *weights, int32_t count) {
    uint64_t sum = 0;
    for (; count > 0; count -= 4, x += 4, weights += 4) {
        sum = vmlaldavaq_u32(sum, vld1q_u32(x), vldrhq_z_u32(weights, vctp32q((uint32_t)count)));
    }
    return sum;
}

#define PILLION_FRAME_HEADROOM frame_headroom
#define PILLION_WINDOW window
#define PILLION_STAGE stage
#define PILLION_RADIX2_STAGE radix2_stage
#define PILLION_SPLIT split
#define PILLION_POWER power
#define PILLION_WEIGHTED_SUM weighted_sum
#include "pillion/log_mel_frames.h"

void pillion_log_mel_mve(const pillion_log_mel_mve_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_log_mel_frames(p, x, y, scratch);
}
#endif

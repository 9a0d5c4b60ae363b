/* SPDX-License-Identifier: Apache-2.0
 * Means of 16 bits over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], sixteen results or eight at a time, or
 * one of elements side by side. Requantization as in README.md. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "bytes.h"
#include "pillion/requantize.h"

typedef pillion_mean_s16_mve_params params;

static inline void store(const params *p, int32x4_t sums, int16_t *y) {
    const int32x4_t high = vqrdmulhq_n_s32(sums, p->multiplier);
    const int32x4_t whole = vrshlq_n_s32(vqdmlahq_n_s32(high, high, p->fix), p->shift);
    vstrhq_s32(y, vreinterpretq_s32_s16(vqmovnbq_s32(vdupq_n_s16(0), vqaddq_n_s32(whole, p->out_zp))));
}

/* Four columns of a row to their sums. */
#define ADD(place, sums) "vldrh.s32 q0, [%[x], #" place "]\n" "vadd.i32 %q[" sums "], %q[" sums "], q0\n"
#define ADD_ROWS(adds)          \
    "wls lr, %[rows], 2f\n"     \
    "1:\n" adds                 \
    "add %[x], %[x], %[step]\n" \
    "le lr, 1b\n"               \
    "2:\n"

/* Eight neighbouring results, or sixteen. */
static void columns(const params *p, const int16_t *x, int32_t count, int16_t *y) {
    const int32_t rows = p->reduced, step = 2 * p->inner;
    int32x4_t a = vdupq_n_s32(-rows * p->in_zp), b = a, c = a, d = a;
    if (count == 8) {
        __asm__ volatile(ADD_ROWS(ADD("0", "a") ADD("8", "b"))
                         : [x] "+&l"(x), [a] "+&w"(a), [b] "+&w"(b)
                         : [rows] "r"(rows), [step] "r"(step)
                         : "lr", "q0", "memory");
    } else {
        __asm__ volatile(ADD_ROWS(ADD("0", "a") ADD("8", "b") ADD("16", "c") ADD("24", "d"))
                         : [x] "+&l"(x), [a] "+&w"(a), [b] "+&w"(b), [c] "+&w"(c), [d] "+&w"(d)
                         : [rows] "r"(rows), [step] "r"(step)
                         : "lr", "q0", "memory");
        store(p, c, y + 8);
        store(p, d, y + 12);
    }
    store(p, a, y);
    store(p, b, y + 4);
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
        int32_t i = 0;
        for (; i + 16 <= inner; i += 16) {
            columns(p, x + i, 16, y + i);
        }
        for (; i + 8 <= inner; i += 8) {
            columns(p, x + i, 8, y + i);
        }
        if (i < inner) {
            int16_t last[8];
            columns(p, x + i, 8, last);
            pillion_mve_copy((int8_t *)(y + i), (const int8_t *)last, 2 * (inner - i));
        }
    }
}

#endif

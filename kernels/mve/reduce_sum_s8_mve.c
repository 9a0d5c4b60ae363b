/* SPDX-License-Identifier: Apache-2.0
 * Sums and means over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], sixteen results at a time. 255
 * elements fit 16 bits; their sums are added to sums of 32 bits, in halves, which narrowing puts together again. Where
 * nothing lies behind the axes that go, VADDVA adds up four rows in turn.
 * Requantization as in README.md: the number of the sign fix is 0 where there is no right shift. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"
#include "row_sums.h"

PILLION_FIELDS_AT(pillion_reduce_sum_s8_mve_params, offsetof(pillion_reduce_sum_s8_mve_params, multiplier), multiplier,
                  shift, fix, out_zp);

/* Up to sixteen neighbouring results. */
static void columns(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int32_t lanes, int8_t *y) {
    int32_t left = p->reduced, rows = MOST_ROWS, sums[LANES];
    __asm__ volatile(
        "vdup.32 q4, %[offset]\n"
        "vmov q5, q4\n"
        "vmov q6, q4\n"
        "vmov q7, q4\n"
        SUMS_OF_ROWS("vadd.i16 q0, q0, q2\n", "vadd.i16 q1, q1, q3\n")
        : [x] "+&l"(x), [left] "+&r"(left), [rows] "+&r"(rows)
        : [offset] "r"(-p->reduced * p->in_zp), [inner] "r"(p->inner), [sums] "r"(sums)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
    finish(&p->multiplier, sums, lanes, y);
    if (lanes > LANES / 2) {
        finish(&p->multiplier, sums + LANES / 2, lanes - LANES / 2, y + LANES / 2);
    }
}

/* Up to four results, each of elements side by side. */
static void up_to_four_rows(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int32_t rows, int8_t *y) {
    const int32_t n = p->reduced;
    const int8_t *x1 = rows > 1 ? x + n : x, *x2 = rows > 2 ? x1 + n : x1, *x3 = rows > 3 ? x2 + n : x2;
    int32_t s0 = -n * p->in_zp, s1 = s0, s2 = s0, s3 = s0, sums[8];
    __asm__ volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.u8 q0, [%[x0]], #16\n"
        "vaddva.s8 %[s0], q0\n"
        "vldrb.u8 q1, [%[x1]], #16\n"
        "vaddva.s8 %[s1], q1\n"
        "vldrb.u8 q2, [%[x2]], #16\n"
        "vaddva.s8 %[s2], q2\n"
        "vldrb.u8 q3, [%[x3]], #16\n"
        "vaddva.s8 %[s3], q3\n"
        "letp lr, 1b\n"
        "2:\n"
        "strd %[s0], %[s2], [%[sums]]\n"
        "strd %[s1], %[s3], [%[sums], #16]\n"
        : [x0] "+&r"(x), [x1] "+&r"(x1), [x2] "+&r"(x2), [x3] "+&r"(x3), [s0] "+&Te"(s0), [s1] "+&Te"(s1), [s2] "+&Te"(s2),
          [s3] "+&Te"(s3)
        : [count] "r"(n), [sums] "r"(sums)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
    finish(&p->multiplier, sums, rows < 4 ? rows : 4, y);
}

void pillion_reduce_sum_s8_mve(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t inner = p->inner;
    if (inner == 1) {
        for (int32_t n = 0; n < p->outer; n += 4) {
            up_to_four_rows(p, x + n * p->reduced, p->outer - n, y + n);
        }
        return;
    }
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * inner, y += inner) {
        for (int32_t i = 0; i < inner; i += LANES) {
            columns(p, x + i, inner - i, y + i);
        }
    }
}

#endif

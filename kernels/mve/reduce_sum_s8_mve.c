/* SPDX-License-Identifier: Apache-2.0
 * Sums and means over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], eight elements at a time. 256
 * elements fit 16 bits; their sums are added to sums of 32 bits, in halves, which narrowing puts together again.
 * Requantization as in README.md: the number of the sign fix is 0 where there is no right shift. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/requantize.h"
#include "pillion/assembly.h"

PILLION_AT(pillion_reduce_sum_s8_mve_params, multiplier, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 0);
PILLION_AT(pillion_reduce_sum_s8_mve_params, shift, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 4);
PILLION_AT(pillion_reduce_sum_s8_mve_params, fix, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 8);
PILLION_AT(pillion_reduce_sum_s8_mve_params, out_zp, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 12);

enum { MOST_ROWS = 256 };

/* Up to eight neighbouring results. */
static void sums(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int32_t lanes, int8_t *y) {
    int32_t left = p->reduced, rows = MOST_ROWS;
    __asm__ volatile(
        "vdup.32 q0, %[offset]\n"
        "vmov q1, q0\n"
        "1:\n"
        "cmp %[rows], %[left]\n"
        "it gt\n"
        "movgt %[rows], %[left]\n"
        "subs %[left], %[left], %[rows]\n"
        "vmov.i32 q2, #0\n"
        "dls lr, %[rows]\n"
        "2:\n"
        "vldrb.s16 q3, [%[x]]\n"
        "add %[x], %[x], %[inner]\n"
        "vadd.i16 q2, q2, q3\n"
        "le lr, 2b\n"
        "vmovlb.s16 q3, q2\n"
        "vadd.i32 q0, q0, q3\n"
        "vmovlt.s16 q3, q2\n"
        "vadd.i32 q1, q1, q3\n"
        "cmp %[left], #0\n"
        "bne 1b\n"
        "ldrd %[rows], %[left], [%[numbers]]\n" /* multiplier, shift */
        "vqrdmulh.s32 q0, q0, %[rows]\n"
        "vqrdmulh.s32 q1, q1, %[rows]\n"
        "ldr %[rows], [%[numbers], #8]\n" /* fix */
        "vqdmlah.s32 q0, q0, %[rows]\n"
        "vqdmlah.s32 q1, q1, %[rows]\n"
        "vrshl.s32 q0, %[left]\n"
        "vrshl.s32 q1, %[left]\n"
        "ldr %[rows], [%[numbers], #12]\n" /* out_zp */
        "vqmovnb.s32 q0, q0\n"
        "vqmovnt.s32 q0, q1\n"
        "vqadd.s16 q0, q0, %[rows]\n"
        "vqmovnb.s16 q0, q0\n"
        "vctp.16 %[lanes]\n"
        "vpst\n"
        "vstrbt.16 q0, [%[y]]\n"
        : [x] "+l"(x), [left] "+r"(left), [rows] "+r"(rows)
        : [offset] "r"(-p->reduced * p->in_zp), [inner] "r"(p->inner), [numbers] "r"(&p->multiplier), [lanes] "r"(lanes),
          [y] "l"(y)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* A result alone, of elements side by side. */
static int8_t sum_of_row(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x) {
    int32_t sum = -p->reduced * p->in_zp;
    __asm__ volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.u8 q0, [%[x]], #16\n"
        "vaddva.s8 %[sum], q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+r"(x), [sum] "+Te"(sum)
        : [count] "r"(p->reduced)
        : "lr", "q0", "cc", "memory");
    return pillion_saturate(pillion_requantize(sum, p->multiplier, p->shift), p->out_zp, -128, 127);
}

void pillion_reduce_sum_s8_mve(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * p->inner, y += p->inner) {
        if (p->inner == 1) {
            *y = sum_of_row(p, x);
            continue;
        }
        for (int32_t i = 0; i < p->inner; i += 8) {
            sums(p, x + i, p->inner - i, y + i);
        }
    }
}

#endif

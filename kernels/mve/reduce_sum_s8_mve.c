/* SPDX-License-Identifier: Apache-2.0
 * Sums and means over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], 32 results at a time, then eight;
 * the last 32 may overlap those before. 256 elements fit 16 bits; their sums are added to sums of 32 bits, in halves, which
 * narrowing puts together again. Where nothing lies behind the axes that go, VADDVA adds up four rows in turn.
 * Requantization as in README.md: the number of the sign fix is 0 where there is no right shift. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"

PILLION_AT(pillion_reduce_sum_s8_mve_params, multiplier, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 0);
PILLION_AT(pillion_reduce_sum_s8_mve_params, shift, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 4);
PILLION_AT(pillion_reduce_sum_s8_mve_params, fix, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 8);
PILLION_AT(pillion_reduce_sum_s8_mve_params, out_zp, offsetof(pillion_reduce_sum_s8_mve_params, multiplier) + 12);

enum { MOST_ROWS = 256, MANY = 32 };

/* From sums of even and odd elements in q0 and q1 to bytes in q0, in 16-bit lanes. */
#define REQUANTIZE(a, b)                                        \
    "ldrd " a ", " b ", [%[numbers]]\n" /* multiplier, shift */ \
    "vqrdmulh.s32 q0, q0, " a "\n"                              \
    "vqrdmulh.s32 q1, q1, " a "\n"                              \
    "ldr " a ", [%[numbers], #8]\n" /* fix */                   \
    "vqdmlah.s32 q0, q0, " a "\n"                               \
    "vqdmlah.s32 q1, q1, " a "\n"                               \
    "vrshl.s32 q0, " b "\n"                                     \
    "vrshl.s32 q1, " b "\n"                                     \
    "ldr " a ", [%[numbers], #12]\n" /* out_zp */               \
    "vqmovnb.s32 q0, q0\n"                                      \
    "vqmovnt.s32 q0, q1\n"                                      \
    "vqadd.s16 q0, q0, " a "\n"                                 \
    "vqmovnb.s16 q0, q0\n"

/* Up to eight neighbouring results. */
static void up_to_eight(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int32_t lanes, int8_t *y) {
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
        "bne 1b\n" REQUANTIZE("%[rows]", "%[left]")
        "vctp.16 %[lanes]\n"
        "vpst\n"
        "vstrbt.16 q0, [%[y]]\n"
        : [x] "+l"(x), [left] "+r"(left), [rows] "+r"(rows)
        : [offset] "r"(-p->reduced * p->in_zp), [inner] "r"(p->inner), [numbers] "r"(&p->multiplier), [lanes] "r"(lanes),
          [y] "l"(y)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* Adds sums of 16 bits to those of 32 bits, of which the next four are of even elements, then four of odd ones. */
#define ADD_HALVES(q)                \
    "vldrw.s32 q4, [%[sums]]\n"      \
    "vmovlb.s16 q5, " q "\n"         \
    "vadd.i32 q4, q4, q5\n"          \
    "vstrw.s32 q4, [%[sums]], #16\n" \
    "vldrw.s32 q4, [%[sums]]\n"      \
    "vmovlt.s16 q5, " q "\n"         \
    "vadd.i32 q4, q4, q5\n"          \
    "vstrw.s32 q4, [%[sums]], #16\n"

/* Adds up to 256 rows of 32 elements to their sums. */
static void add_rows(const int8_t *x, int32_t rows, int32_t step, int32_t *sums) {
    __asm__ volatile(
        "vmov.i32 q0, #0\n"
        "vmov.i32 q1, #0\n"
        "vmov.i32 q2, #0\n"
        "vmov.i32 q3, #0\n"
        "dls lr, %[rows]\n"
        "1:\n"
        "vldrb.s16 q4, [%[x]]\n"
        "vldrb.s16 q5, [%[x], #8]\n"
        "vadd.i16 q0, q0, q4\n"
        "vldrb.s16 q4, [%[x], #16]\n"
        "vadd.i16 q1, q1, q5\n"
        "vldrb.s16 q5, [%[x], #24]\n"
        "add %[x], %[x], %[step]\n"
        "vadd.i16 q2, q2, q4\n"
        "vadd.i16 q3, q3, q5\n"
        "le lr, 1b\n" ADD_HALVES("q0") ADD_HALVES("q1") ADD_HALVES("q2") ADD_HALVES("q3")
        : [x] "+l"(x), [sums] "+r"(sums)
        : [rows] "r"(rows), [step] "r"(step)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "memory");
}

/* 32 neighbouring results. */
static void many(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int8_t *y) {
    const int32_t offset = -p->reduced * p->in_zp, *from;
    int32_t sums[MANY], count = MANY / 8, a, b;
    for (int32_t i = 0; i < MANY; i++) {
        sums[i] = offset;
    }
    for (int32_t left = p->reduced; left > 0; left -= MOST_ROWS, x += MOST_ROWS * p->inner) {
        add_rows(x, left < MOST_ROWS ? left : MOST_ROWS, p->inner, sums);
    }
    from = sums;
    __asm__ volatile(
        "dls lr, %[count]\n"
        "1:\n"
        "vldrw.s32 q0, [%[from]], #16\n"
        "vldrw.s32 q1, [%[from]], #16\n" REQUANTIZE("%[a]", "%[b]")
        "vstrb.16 q0, [%[y]], #8\n"
        "le lr, 1b\n"
        : [from] "+r"(from), [y] "+l"(y), [a] "=&r"(a), [b] "=&r"(b)
        : [count] "r"(count), [numbers] "r"(&p->multiplier)
        : "lr", "q0", "q1", "memory");
}

/* Up to four results, each of elements side by side. */
static void up_to_four_rows(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int32_t rows, int8_t *y) {
    const int32_t n = p->reduced;
    const int8_t *x1 = rows > 1 ? x + n : x, *x2 = rows > 2 ? x1 + n : x1, *x3 = rows > 3 ? x2 + n : x2;
    int32_t s0 = -n * p->in_zp, s1 = s0, s2 = s0, s3 = s0, sums[4];
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
        "vmov q0[2], q0[0], %[s0], %[s2]\n"
        "vmov q0[3], q0[1], %[s1], %[s3]\n"
        "vstrw.32 q0, [%[sums]]\n"
        : [x0] "+r"(x), [x1] "+r"(x1), [x2] "+r"(x2), [x3] "+r"(x3), [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2),
          [s3] "+Te"(s3)
        : [count] "r"(n), [sums] "r"(sums)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
    __asm__ volatile(
        "vldrw.s32 q0, [%[sums]]\n" REQUANTIZE("%[a]", "%[b]")
        "vctp.32 %[rows]\n"
        "vpst\n"
        "vstrbt.32 q0, [%[y]]\n"
        : [a] "=&r"(s0), [b] "=&r"(s1)
        : [sums] "r"(sums), [numbers] "r"(&p->multiplier), [rows] "r"(rows), [y] "l"(y)
        : "q0", "q1", "cc", "memory");
}

void pillion_reduce_sum_s8_mve(const pillion_reduce_sum_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t inner = p->inner;
    for (int32_t n = 0; inner == 1 && n < p->outer; n += 4) {
        up_to_four_rows(p, x + n * p->reduced, p->outer - n, y + n);
    }
    for (int32_t n = 0; inner > 1 && n < p->outer; n++, x += p->reduced * inner, y += inner) {
        int32_t i = 0;
        for (; inner >= MANY && i + MANY / 2 < inner; i += MANY) {
            const int32_t first = i + MANY > inner ? inner - MANY : i;
            many(p, x + first, y + first);
        }
        for (; i < inner; i += 8) {
            up_to_eight(p, x + i, inner - i, y + i);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The mean of each window, counted up from FROM below zero, which BACK takes away again; see pool.h.
 *
 * Rows of at most 256 pixels together are added in 16 bits, their sums in 32 bits. Sums are multiplied in float32 by the reciprocal of
 * the number of pixels, slightly increased: that moves ties away from zero and no other mean past a tie. Then VCVTA rounds to nearest.
 * For windows of up to 4096 pixels all sums were tried. */
#include "pool.h"

#define MOST_PIXELS 256 /* their sum has 16 bits */
#define FACTOR 1.0000002384185791015625f /* 1 + 2^-22 */

/* Adds up `rows` rows of 16 channels: q0 has the first eight of them in 16 bits, q1 the others, q4 to q7 all in 32. */
#define SUM_ROWS(rows)               \
    "vmov.i32 q0, #0\n"              \
    "vmov.i32 q1, #0\n"              \
    "1: dls lr, %[columns]\n"        \
    "2: vldrb.s16 q2, [%[x]]\n"      \
    "vldrb.s16 q3, [%[x], #8]\n"     \
    "add %[x], %[step]\n"            \
    "vadd.i16 q0, q0, q2\n"          \
    "vadd.i16 q1, q1, q3\n"          \
    "le lr, 2b\n"                    \
    "add %[x], %[skip]\n"            \
    "subs " rows ", #1\n"            \
    "bne 1b\n"                       \
    "vmovlb.s16 q2, q0\n"            \
    "vmovlt.s16 q0, q0\n"            \
    "vmovlb.s16 q3, q1\n"            \
    "vmovlt.s16 q1, q1\n"            \
    "vadd.i32 q4, q4, q2\n"          \
    "vadd.i32 q5, q5, q0\n"          \
    "vadd.i32 q6, q6, q3\n"          \
    "vadd.i32 q7, q7, q1\n"

#define MEAN(q)                                       \
    "vcvt.f32.s32 " q ", " q "\n"                     \
    "vmul.f32 " q ", " q ", %[reciprocal]\n"          \
    "vcvta.s32.f32 " q ", " q "\n"

static __attribute__((noinline)) void window(const pillion_mve_window *w, const int8_t *x, int8_t *y) {
    const union {
        float number;
        uint32_t bits;
    } reciprocal = {FACTOR / (float)(w->rows * w->columns)};
    const int32_t most = MOST_PIXELS / w->columns > 0 ? MOST_PIXELS / w->columns : 1;
    int32_t left = w->rows, rows = FROM * w->rows * w->columns, first = w->left;
    __asm__ volatile(
        "vdup.32 q4, %[rows]\n"
        "vmov q5, q4\n"
        "vmov q6, q4\n"
        "vmov q7, q4\n"
        "3:\n"
        "cmp %[left], %[most]\n"
        "ite lt\n"
        "movlt %[rows], %[left]\n"
        "movge %[rows], %[most]\n"
        "subs %[left], %[rows]\n" SUM_ROWS("%[rows]")
        "cmp %[left], #0\n"
        "bne 3b\n" MEAN("q4") MEAN("q5") MEAN("q6") MEAN("q7")
        "vqmovnb.s32 q4, q4\n"
        "vqmovnt.s32 q4, q5\n"
        "vqmovnb.s32 q6, q6\n"
        "vqmovnt.s32 q6, q7\n" BACK
        "vctp.16 %[first]\n"
        "vpst\n"
        "vstrbt.16 q4, [%[y]]\n"
        "subs %[first], #8\n"
        "usat %[first], #4, %[first]\n"
        "vctp.16 %[first]\n"
        "vpst\n"
        "vstrbt.16 q6, [%[y], #8]\n"
        : [x] "+&l"(x), [left] "+&r"(left), [rows] "+&r"(rows), [first] "+&r"(first)
        : [y] "l"(y), [columns] "r"(w->columns), [step] "r"(w->pixel_bytes), [skip] "r"(w->row_skip), [most] "r"(most),
          [reciprocal] "r"(reciprocal.bits)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3 of 16-bit inputs, stride 1, by strips (strips.h).
 *
 * A vector is two columns of a strip, and two of them are a window of 4x4 for two outputs side by side: the columns of the kernel lie
 * in q0 and q1 for the left one, in q2 and q3 for the right one, with zeros around. Vectors that begin one row further down make outputs of
 * the lower row. Two rows of four outputs are made together; where the last strip has one row of outputs, eight of it. The lanes of the lower
 * row come first: where there is none, they go where those of the upper row go after them. y may be x:
 * strips.h says why.
 * Registers: as strips_asm.h says; q4 the last column of the lower row or of a lone one, q5 that of the upper row, q6 q7 columns and sums. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"
#include "strips_asm.h"

/* Two outputs of the columns in `left` and of the next two, which become `right`. */
#define WINDOW(left, right, from, even, odd)  \
    "vldrh.u16 " right ", " from "\n"         \
    "vmladav.s16 " even ", " left ", q0\n"    \
    "vmladava.s16 " even ", " right ", q1\n"  \
    "vmladav.s16 " odd ", " left ", q2\n"     \
    "vmladava.s16 " odd ", " right ", q3\n"
#define WINDOWS(q, last, next, second, third)                                           \
    WINDOW(last, next, second, "r0", "r2") WINDOW(next, last, third, "r4", "r6")    \
    "vmov " q "[2], " q "[0], r0, r4\n"                                             \
    "vmov " q "[3], " q "[1], r2, r6\n"
/* Four outputs of a row; q4 has their first columns, then the next ones. */
#define ROW_WINDOWS(q) WINDOWS(q, "q4", "q5", "[r1], #16", "[r1], #16")
/* Four outputs of each of two rows; q4 and q5 have their first columns. */
#define TWO_ROWS WINDOWS("q6", "q4", "q6", "[r1, #2]", "[r1, #18]") WINDOWS("q7", "q5", "q7", "[r1], #16", "[r1], #16")
#define BEGIN_ROWS "vldrh.u16 q4, [r1, #2]\n" "vldrh.u16 q5, [r1], #16\n"

/* The lanes around a kernel are not loaded, and stay zero. */
#define LOAD_KERNEL              \
    "vldrb.s16 q0, [r4]\n"       \
    "vldrb.s16 q3, [r4, #4]\n"   \
    "movs r1, #0xff\n"           \
    "vmsr p0, r1\n"              \
    "vpst\n"                     \
    "vldrbt.s16 q1, [r4, #8]\n"  \
    "vpnot\n"                    \
    "vpst\n"                     \
    "vldrbt.s16 q2, [r4, #-4]\n"
#define RESULTS(bounded) INT16_RESULTS("q6", "q7", bounded, "vldrh.u16 q7, [r11, #32]\n", "q7")
#define NO_BOUND(q) ""
/* unsigned saturation of a shift by no bit */
#define FROM_ZERO_ON(q) "vqshlu.s16 " q ", " q ", #0\n"

/* Where the pass says so, a row of its own. */
#define IS_LONE                  \
    "lsls r0, r0, #30\n"         \
    "bmi 4f\n"
#define LONE_ROW(results)            \
    "4:\n"                       \
    "dls lr, lr\n"               \
    "vldrh.u16 q4, [r1], #16\n"  \
    "5:\n" ROUND(ROW_WINDOWS("q6") ROW_WINDOWS("q7"), "q6", "q7", results) \
    "le lr, 5b\n"                \
    "b 3b\n"

#define OUTPUTS(name, bounded)                                                                              \
    STRIP_OUTPUTS(name, INT16_NUMBERS, LOAD_KERNEL, IS_LONE, BEGIN_ROWS, ROUND(TWO_ROWS, "q6", "q7", RESULTS(bounded)), \
                  LONE_ROW(RESULTS(bounded)))
OUTPUTS(outputs, NO_BOUND)
OUTPUTS(rectified_outputs, FROM_ZERO_ON)

void pillion_depthwise_3x3_s16_mve(const pillion_depthwise_3x3_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t is_rectified = p->low == 0;
    pillion_mve_strips_of_halfwords(p, x, y, scratch, is_rectified ? rectified_outputs : outputs);
    pillion_mve_clamp_16(y, p->images * p->output_bytes >> 1, is_rectified ? INT16_MIN : p->low, p->high);
}

#endif

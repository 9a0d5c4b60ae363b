/* SPDX-License-Identifier: Apache-2.0
 * Four numbers between four pixels each: channels side by side, or pixels of a channel where there are few. Halves go away from zero: they
 * are rounded up, after negative sums have been made less by one. */
#ifndef PILLION_BILINEAR_MVE_H
#define PILLION_BILINEAR_MVE_H

#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

typedef int8_t element;
#include "pillion/bilinear.h"

#define ROUND(sums, sign)                        \
    "vshr.s32 " #sign ", " #sums ", #31\n"       \
    "vadd.i32 " #sums ", " #sums ", " #sign "\n" \
    "vrshr.s32 " #sums ", " #sums ", #20\n"

/* All channels of one pixel, with the same shares. */
static inline void pixel(int32_t channels, const int8_t *top, const int8_t *bottom, int32_t across, shares of, int8_t *y) {
    const int8_t *top_right = top + across, *bottom_right = bottom + across;
    __asm__ volatile(
        "wlstp.32 lr, %[channels], 2f\n"
        "1: vldrb.s32 q0, [%[top]], #4\n"
        "vmul.i32 q0, q0, %[a]\n"
        "vldrb.s32 q1, [%[top_right]], #4\n"
        "vmla.s32 q0, q1, %[b]\n"
        "vldrb.s32 q1, [%[bottom]], #4\n"
        "vmla.s32 q0, q1, %[c]\n"
        "vldrb.s32 q1, [%[bottom_right]], #4\n"
        "vmla.s32 q0, q1, %[d]\n"
        ROUND(q0, q1)
        "vstrb.32 q0, [%[y]], #4\n"
        "letp lr, 1b\n"
        "2:\n"
        : [top] "+&l"(top), [top_right] "+&l"(top_right), [bottom] "+&l"(bottom), [bottom_right] "+&l"(bottom_right), [y] "+&l"(y)
        : [channels] "r"(channels), [a] "r"(of.upper_left), [b] "r"(of.upper_right), [c] "r"(of.lower_left), [d] "r"(of.lower_right)
        : "lr", "q0", "q1", "cc", "memory");
}

/* Where four pixels stand in the table of columns: their left columns, their right ones, and the parts of these. */
static const uint32_t words[] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};

/* One channel of a row, four pixels at a time. */
PILLION_APART void plane_row(const int32_t *column, int32_t out_w, int32_t channels, const int8_t *top, const int8_t *bottom,
                             int32_t lower, int8_t *y) {
    const uint32_t step = (uint32_t)channels, apart[] = {0, step, 2 * step, 3 * step};
    __asm__ volatile(
        "vldrw.u32 q5, [%[words]]\n"
        "vldrw.u32 q6, [%[words], #16]\n"
        "vldrw.u32 q7, [%[apart]]\n"
        "wlstp.32 lr, %[out_w], 2f\n"
        "1: vldrw.u32 q0, [%[column], q5, uxtw #2]\n"
        "vmul.i32 q0, q0, %[channels]\n"
        "vldrw.u32 q1, [%[column], q6, uxtw #2]\n"
        "vmul.i32 q1, q1, %[channels]\n"
        "vldrb.s32 q2, [%[top], q0]\n"
        "vmul.i32 q2, q2, %[upper]\n"
        "vldrb.s32 q3, [%[bottom], q0]\n"
        "vmla.s32 q2, q3, %[lower]\n"
        "vldrb.s32 q3, [%[top], q1]\n"
        "vmul.i32 q3, q3, %[upper]\n"
        "vldrb.s32 q4, [%[bottom], q1]\n"
        "vmla.s32 q3, q4, %[lower]\n"
        "vldrw.u32 q4, [%[words], #32]\n"
        "vldrw.u32 q0, [%[column], q4, uxtw #2]\n"
        "vsub.i32 q3, q3, q2\n"
        "vmul.i32 q3, q3, q0\n"
        "vshl.i32 q2, q2, #10\n"
        "vadd.i32 q2, q2, q3\n"
        ROUND(q2, q3)
        "vstrb.32 q2, [%[y], q7]\n"
        "add %[column], #48\n"
        "add %[y], %[y], %[channels], lsl #2\n"
        "letp lr, 1b\n"
        "2:\n"
        : [column] "+&r"(column), [y] "+&r"(y)
        : [words] "r"(words), [apart] "r"(apart), [out_w] "r"(out_w), [channels] "r"(channels), [top] "r"(top), [bottom] "r"(bottom),
          [upper] "r"(ONE - lower), [lower] "r"(lower)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

enum { FEW_CHANNELS = 3 };

PILLION_APART int8_t *row_between(const int32_t *column, int32_t out_w, int32_t channels, const int8_t *top, const int8_t *bottom,
                                  int32_t lower, int8_t *y) {
    if (channels <= FEW_CHANNELS) {
        for (int32_t c = 0; c < channels; c++) {
            plane_row(column, out_w, channels, top + c, bottom + c, lower, y + c);
        }
        return y + out_w * channels;
    }
    for (const int32_t *const end = column + 3 * out_w; column != end; column += 3, y += channels) {
        const int32_t left = column[0] * channels, across = column[1] * channels - left;
        pixel(channels, top + left, bottom + left, across, shares_of(column[2], lower), y);
    }
    return y;
}

#endif

#endif

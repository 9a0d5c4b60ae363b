/* SPDX-License-Identifier: Apache-2.0
 * Four numbers between four pixels each: channels side by side, or pixels of a channel where there are few. Halves go away from zero: they
 * are rounded up, after negative sums have been made less by one.
 * Registers of a channel: r1 columns, r2 y, r6 from pixel to pixel, r8 and r9 the rows, r10 and r12 their shares; q5 q6 places in the
 * table of columns, q7 places of results. Of pixels: r1 r2 r6 r4 the four, r7 r9 r8 r10 their shares, r5 y, r11 columns, r12 channels. */
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

/* The entries of four pixels in the table of columns: their left columns, their right columns, and the shares of the right ones. */
static const uint32_t words[] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};

/* The fields that the assembly below loads, in this order. */
typedef struct {
    const int32_t *column;
    int8_t *y;
    const uint32_t *words, *apart;
    int32_t out_w, channels;
    const int8_t *top, *bottom;
    int32_t upper, lower;
} plane;

#define CLOBBERS "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory"

/* One channel of a row, four pixels at a time. */
static __attribute__((noinline)) void plane_row(const plane *p) {
    register const plane *r0 __asm__("r0") = p;
    __asm__ volatile(
        "ldm r0, {r1-r6, r8-r10, r12}\n"
        "vldrw.u32 q5, [r3]\n"
        "vldrw.u32 q6, [r3, #16]\n"
        "vldrw.u32 q7, [r4]\n"
        "wlstp.32 lr, r5, 2f\n"
        "1: vldrw.u32 q0, [r1, q5, uxtw #2]\n"
        "vmul.i32 q0, q0, r6\n"
        "vldrw.u32 q1, [r1, q6, uxtw #2]\n"
        "vmul.i32 q1, q1, r6\n"
        "vldrb.s32 q2, [r8, q0]\n"
        "vmul.i32 q2, q2, r10\n"
        "vldrb.s32 q3, [r9, q0]\n"
        "vmla.s32 q2, q3, r12\n"
        "vldrb.s32 q3, [r8, q1]\n"
        "vmul.i32 q3, q3, r10\n"
        "vldrb.s32 q4, [r9, q1]\n"
        "vmla.s32 q3, q4, r12\n"
        "vldrw.u32 q4, [r3, #32]\n"
        "vldrw.u32 q0, [r1, q4, uxtw #2]\n"
        "vsub.i32 q3, q3, q2\n"
        "vmul.i32 q3, q3, q0\n"
        "vshl.i32 q2, q2, #10\n"
        "vadd.i32 q2, q2, q3\n"
        ROUND(q2, q3)
        "vstrb.32 q2, [r2, q7]\n"
        "add r1, #48\n"
        "add r2, r2, r6, lsl #2\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+r"(r0)
        :
        : CLOBBERS, "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7");
}

/* The fields that the assembly below loads, in this order: `rest` is (ONE - lower) * ONE, and results of a pixel end `back` bytes behind where the
 * last four of them end. */
typedef struct {
    const int8_t *top, *bottom;
    int8_t *y;
    int32_t channels, lower, rest, back;
    const int32_t *column, *end;
} pixels;

/* A row, all channels of a pixel with the same shares. The four are upper left, upper right, lower left and lower right. */
static __attribute__((noinline)) void pixel_row(const pixels *p) {
    register const pixels *r0 __asm__("r0") = p;
    __asm__ volatile(
        "push {r7, r11}\n"
        "ldrd r5, r12, [r0, #8]\n"
        "ldr r11, [r0, #28]\n"
        "0: ldrd r1, r2, [r11], #8\n"
        "ldr r3, [r11], #4\n"
        "ldrd r8, r7, [r0, #16]\n"
        "mul r1, r1, r12\n"
        "mul r2, r2, r12\n"
        "mul r10, r3, r8\n"
        "rsb r9, r10, r3, lsl #10\n"
        "rsb r8, r10, r8, lsl #10\n"
        "sub r7, r7, r9\n"
        "ldrd r3, r6, [r0]\n"
        "add r4, r6, r2\n"
        "add r2, r3\n"
        "add r6, r1\n"
        "add r1, r3\n"
        "wlstp.32 lr, r12, 2f\n"
        "1: vldrb.s32 q0, [r1], #4\n"
        "vmul.i32 q0, q0, r7\n"
        "vldrb.s32 q1, [r2], #4\n"
        "vmla.s32 q0, q1, r9\n"
        "vldrb.s32 q1, [r6], #4\n"
        "vmla.s32 q0, q1, r8\n"
        "vldrb.s32 q1, [r4], #4\n"
        "vmla.s32 q0, q1, r10\n"
        ROUND(q0, q1)
        "vstrb.32 q0, [r5], #4\n"
        "letp lr, 1b\n"
        "2: ldr r3, [r0, #24]\n"
        "add r5, r3\n"
        "ldr r3, [r0, #32]\n"
        "cmp r11, r3\n"
        "bne 0b\n"
        "pop {r7, r11}\n"
        : "+r"(r0)
        :
        : CLOBBERS, "q0", "q1");
}

enum { FEW_CHANNELS = 3 };

PILLION_APART int8_t *row_between(const int32_t *column, int32_t out_w, int32_t channels, const int8_t *top, const int8_t *bottom,
                                  int32_t lower, int8_t *y) {
    if (channels <= FEW_CHANNELS) {
        const uint32_t step = (uint32_t)channels, apart[] = {0, step, 2 * step, 3 * step};
        for (int32_t c = 0; c < channels; c++) {
            const plane p = {column, y + c, words, apart, out_w, channels, top + c, bottom + c, ONE - lower, lower};
            plane_row(&p);
        }
    } else {
        const int32_t back = channels - (channels + 3) / 4 * 4;
        const pixels p = {top, bottom, y, channels, lower, (ONE - lower) * ONE, back, column, column + 3 * out_w};
        pixel_row(&p);
    }
    return y + out_w * channels;
}

#endif

#endif

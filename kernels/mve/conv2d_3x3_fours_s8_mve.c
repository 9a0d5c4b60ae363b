/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of 3x3, stride 1 along rows, over a multiple of 16 channels, to a multiple of four: 4 pixels x 2
 * channels at a time, so that six columns and six vectors of weights serve the 24 products of a kernel row.
 *
 * The inputs are planes (planes.h). A pass over them makes two channels, 0 and 2 of a group of four, then 1 and 3: a lane is
 * a pixel, and narrowing transposes (README.md), so that one scattered store writes four channels of four pixels. The order of
 * the weights is [row][plane][column][channel].
 * Registers: r0 r2 r4 r6 sums of the first channel, r8 r10 r12 lr of the second, r1 the planes, r3 from plane to plane, r5
 * weights, r7 planes left, r9 what the passes are told, r11 the state; q0-q3 inputs of four columns, q4 q7 weights, q5 results
 * of the first pass. Of the results: r0 r4 multipliers, r2 r6 shifts, r7 the number of the sign fix or 0, r8 zero point, r10 not
 * 0 in the second pass; q6 q7 sums. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"

typedef pillion_conv2d_3x3_fours_s8_mve_params params;

enum { PIXELS = 4, CHANNELS = 4, NUMBERS = 3 * CHANNELS, WORDS_OF_PLANE = 9 * 4 * CHANNELS };

typedef struct {
    int32_t biases[2 * PIXELS];
    int32_t multiplier_a, shift_a, multiplier_b, shift_b, fix, out_zp, last;
} pass;
PILLION_BYTES(pass, 60);

typedef struct {
    int8_t *y;               /*  0: r0 */
    const int8_t *x;         /*  4: r1 */
    int32_t y_step;          /*  8: r2, to the next four pixels */
    const int8_t *row_end;   /* 12: r4 */
    const void *weights;     /* 16: r5 */
    int32_t planes;          /* 20: r7 */
    const pass *pass;        /* 24: r9 */
    int32_t places[PIXELS];  /* 28: of the pixels, from y */
    int32_t distance;        /* 44: r3 */
    int32_t rows_left;       /* 48 */
    int32_t x_skip, y_skip;  /* 52 56: from the end of a row to the next one */
    int32_t y_row;           /* 60: from end to end */
    pass passes[2];
} state;
PILLION_FIELDS_AT(state, 0, y, x, y_step, row_end, weights, planes, pass, places);
PILLION_FIELDS_AT(state, 44, distance, rows_left, x_skip, y_skip, y_row);

/* 16 inputs of a tap, of four pixels, with both channels. */
#define TAP(first, second, third, fourth)    \
    "vldrw.u32 q4, [r5], #16\n"              \
    "vldrw.u32 q7, [r5], #16\n"              \
    "vmladava.s8 r0, " first ", q4\n"        \
    "vmladava.s8 r8, " first ", q7\n"        \
    "vmladava.s8 r2, " second ", q4\n"       \
    "vmladava.s8 r10, " second ", q7\n"      \
    "vmladava.s8 r4, " third ", q4\n"        \
    "vmladava.s8 r12, " third ", q7\n"       \
    "vmladava.s8 r6, " fourth ", q4\n"       \
    "vmladava.s8 lr, " fourth ", q7\n"
#define KERNEL_ROW                           \
    "vldrb.u8 q0, [r1]\n"                    \
    "vldrb.u8 q1, [r1, #16]\n"               \
    "vldrb.u8 q2, [r1, #32]\n"               \
    "vldrb.u8 q3, [r1, #48]\n"               \
    TAP("q0", "q1", "q2", "q3")              \
    "vldrb.u8 q0, [r1, #64]\n"               \
    TAP("q1", "q2", "q3", "q0")              \
    "vldrb.u8 q1, [r1, #80]\n"               \
    TAP("q2", "q3", "q0", "q1")              \
    "add r1, r3\n"

/* All fours of pixels of some rows, for a group of four channels. */
static __attribute__((noinline)) void fours(state *s) {
    register state *r0 __asm__("r0") = s;
    __asm__ volatile(
        "push {r7, r11}\n"
        "mov r11, r0\n"
        "ldr r3, [r11, #44]\n"
        "1:\n"
        "ldm r11, {r0, r1, r2, r4, r5, r7, r9}\n"
        "2:\n"
        "ldm r9!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
        "3:\n" KERNEL_ROW KERNEL_ROW KERNEL_ROW
        "subs r7, #1\n"
        "bne.w 3b\n"
        "vmov q6[2], q6[0], r0, r4\n"
        "vmov q6[3], q6[1], r2, r6\n"
        "vmov q7[2], q7[0], r8, r12\n"
        "vmov q7[3], q7[1], r10, lr\n"
        "ldm r9!, {r0, r2, r4, r6, r7, r8, r10}\n"
        "vqrdmulh.s32 q6, q6, r0\n"
        "vqrdmulh.s32 q7, q7, r4\n"
        "cbz r7, 4f\n"
        "vqdmlah.s32 q6, q6, r7\n"
        "vqdmlah.s32 q7, q7, r7\n"
        "4:\n"
        "vrshl.s32 q6, r2\n"
        "vrshl.s32 q7, r6\n"
        "vqmovnb.s32 q6, q6\n"
        "vqmovnt.s32 q6, q7\n"
        "vqadd.s16 q6, q6, r8\n"
        "ldr r1, [r11, #4]\n"
        "ldr r7, [r11, #20]\n"
        "cmp r10, #0\n"
        "bne 5f\n"
        "vqmovnb.s16 q5, q6\n"
        "b.w 2b\n"
        "5:\n"
        "vqmovnt.s16 q5, q6\n"
        "vldrw.u32 q6, [r11, #28]\n"
        "ldm r11, {r0, r1, r2, r4}\n"
        "vstrw.32 q5, [r0, q6]\n"
        "add r0, r2\n"
        "adds r1, #64\n"
        "stm r11, {r0, r1}\n"
        "cmp r0, r4\n"
        "bne.w 1b\n"
        "ldr r2, [r11, #48]\n" /* the next row */
        "subs r2, #1\n"
        "beq 6f\n"
        "str r2, [r11, #48]\n"
        "ldrd r2, r6, [r11, #52]\n"
        "add r1, r2\n"
        "add r0, r6\n"
        "stm r11, {r0, r1}\n"
        "ldr r2, [r11, #60]\n"
        "add r4, r2\n"
        "str r4, [r11, #12]\n"
        "b.w 1b\n"
        "6:\n"
        "pop {r7, r11}\n"
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6",
          "q7", "cc", "memory");
}

static void tell_passes(const params *p, const int32_t *numbers, pass *passes) {
    for (int32_t i = 0; i < 2; i++, numbers += 2) {
        pass *const told = passes + i;
        for (int32_t pixel = 0; pixel < PIXELS; pixel++) {
            told->biases[pixel] = numbers[0], told->biases[PIXELS + pixel] = numbers[1];
        }
        told->multiplier_a = numbers[CHANNELS], told->multiplier_b = numbers[CHANNELS + 1];
        told->shift_a = numbers[2 * CHANNELS], told->shift_b = numbers[2 * CHANNELS + 1];
        told->fix = p->signs == 0, told->out_zp = p->out_zp, told->last = i;
    }
}

/* `count` pixels, a multiple of four, of `rows` rows from `column` on. */
static void columns(const params *p, const int8_t *planes, int8_t *y, int32_t rows, const int32_t *numbers, const void *weights,
                    int32_t column, int32_t count) {
    state s;
    s.x = planes + column * 16;
    s.y = y + column * p->out_c;
    s.y_step = PIXELS * p->out_c;
    s.row_end = s.y + count * p->out_c;
    s.weights = weights;
    s.planes = p->planes;
    s.pass = s.passes;
    for (int32_t pixel = 0; pixel < PIXELS; pixel++) {
        s.places[pixel] = pixel * p->out_c;
    }
    s.distance = p->plane_bytes;
    s.rows_left = rows;
    s.x_skip = p->stride_h * p->planes * p->plane_bytes - count * 16;
    s.y_row = p->out_w * p->out_c;
    s.y_skip = s.y_row - count * p->out_c;
    tell_passes(p, numbers, s.passes);
    fours(&s);
}

void pillion_mve_3x3_fours(const params *p, const int8_t *planes, int8_t *y, int32_t rows, const int32_t *numbers, const void *weights) {
    columns(p, planes, y, rows, numbers, weights, 0, p->out_w & ~(PIXELS - 1));
    if (p->out_w & (PIXELS - 1)) { /* the last four again */
        columns(p, planes, y, rows, numbers, weights, p->out_w - PIXELS, PIXELS);
    }
}

static void output_rows(const params *p, int8_t *planes, int8_t *y, int32_t rows) {
    const int32_t *constants = p->constants;
    for (int32_t channel = 0; channel < p->out_c; channel += CHANNELS) {
        pillion_mve_3x3_fours(p, planes, y + channel, rows, constants, constants + NUMBERS);
        constants += NUMBERS + WORDS_OF_PLANE * p->planes;
    }
}

void pillion_conv2d_3x3_fours_s8_mve(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_planes(p, x, y, scratch, output_rows);
}

#endif

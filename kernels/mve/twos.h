/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of 3x3 to an even number of 16-bit channels: 4 pixels x 2 channels at a time. Six columns and six vectors of
 * weights serve the 24 products of a kernel row at stride 1, nine columns at stride 2. Who includes this defines WEIGHTS(q), which loads a
 * vector of them, and PRODUCT, which multiplies and adds.
 *
 * The inputs are planes (planes.h), to which a pixel is bytes: out_c counts those of results. A lane is a pixel; narrowing the sums of both channels puts
 * their results next to each other, so that one scattered store writes them.
 * Registers: r0 r2 r4 r6 sums of the first channel, r8 r10 r12 lr of the second, r1 the planes, r3 from plane to plane, r5
 * weights, r7 planes left, r9 numbers of the channels, r11 the state; q0-q3 inputs of four columns, q4 q7 weights, q5 places
 * in y, q6 q7 results. */
#ifndef PILLION_MVE_TWOS_H
#define PILLION_MVE_TWOS_H

#include "pillion/assembly.h"
#include "planes.h"

typedef pillion_conv2d_3x3_s8_mve_params params;

enum { PIXELS = 4, CHANNELS = 2, NUMBERS = 2 * CHANNELS, WORD = 4 };

typedef struct {
    int8_t *y;               /*  0: r0 */
    const int8_t *x;         /*  4: r1 */
    int32_t y_step;          /*  8: r2, to the next four pixels */
    const int8_t *row_end;   /* 12: r4 */
    const void *weights;     /* 16: r5 */
    int32_t planes;          /* 20: r7 */
    const int32_t *biases;   /* 24: r9 */
    int32_t distance;        /* 28: r3 */
    int32_t places[PIXELS];  /* 32: of the pixels, from y */
    int32_t rows_left;       /* 48 */
    int32_t x_skip, y_skip;  /* 52 56: from the end of a row to the next one */
    int32_t y_row;           /* 60: from end to end */
    int32_t bias[2 * PIXELS], factor[CHANNELS], low; /* 64 */
} state;
PILLION_FIELDS_AT(state, 0, y, x, y_step, row_end, weights, planes, biases, distance, places);
PILLION_FIELDS_AT(state, 48, rows_left, x_skip, y_skip, y_row, bias);
PILLION_FIELDS_AT(state, 96, factor);
PILLION_FIELDS_AT(state, 104, low);

/* A vector of inputs of a tap, of four pixels, with both channels. */
#define TAP(first, second, third, fourth)    \
    WEIGHTS("q4") WEIGHTS("q7")              \
    PRODUCT " r0, " first ", q4\n"           \
    PRODUCT " r8, " first ", q7\n"           \
    PRODUCT " r2, " second ", q4\n"          \
    PRODUCT " r10, " second ", q7\n"         \
    PRODUCT " r4, " third ", q4\n"           \
    PRODUCT " r12, " third ", q7\n"          \
    PRODUCT " r6, " fourth ", q4\n"          \
    PRODUCT " lr, " fourth ", q7\n"
#define COLUMN(q, place) "vldrw.u32 " q ", [r1, #" place "]\n"
#define ROW_AT_STRIDE_1                                                            \
    COLUMN("q0", "0") COLUMN("q1", "16") COLUMN("q2", "32") COLUMN("q3", "48")     \
    TAP("q0", "q1", "q2", "q3") COLUMN("q0", "64") TAP("q1", "q2", "q3", "q0")     \
    COLUMN("q1", "80") TAP("q2", "q3", "q0", "q1")                                 \
    "add r1, r3\n"
#define ROW_AT_STRIDE_2                                                            \
    COLUMN("q0", "0") COLUMN("q1", "32") COLUMN("q2", "64") COLUMN("q3", "96")     \
    TAP("q0", "q1", "q2", "q3") COLUMN("q0", "128") TAP("q1", "q2", "q3", "q0")    \
    COLUMN("q0", "16") COLUMN("q1", "48") COLUMN("q2", "80") COLUMN("q3", "112")   \
    TAP("q0", "q1", "q2", "q3")                                                    \
    "add r1, r3\n"

/* All fours of pixels of some rows, for two channels. */
#define FOURS(name, kernel_row, x_step)                                            \
    static __attribute__((noinline)) void name(state *s) {                         \
        register state *r0 __asm__("r0") = s;                                      \
        __asm__ volatile(                                                          \
            "push {r7, r11}\n"                                                     \
            "mov r11, r0\n"                                                        \
            "vldrw.u32 q5, [r11, #32]\n"                                           \
            "ldr r3, [r11, #28]\n"                                                 \
            "1:\n"                                                                 \
            "ldm r11, {r0, r1, r2, r4, r5, r7, r9}\n"                              \
            "ldm r9!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"                        \
            "2:\n" kernel_row kernel_row kernel_row                                \
            "subs r7, #1\n"                                                        \
            "bne.w 2b\n"                                                           \
            "vmov q6[2], q6[0], r0, r4\n"                                          \
            "vmov q6[3], q6[1], r2, r6\n"                                          \
            "vmov q7[2], q7[0], r8, r12\n"                                         \
            "vmov q7[3], q7[1], r10, lr\n"                                         \
            "ldm r9, {r2, r4, r7}\n"                                               \
            "vqrdmulh.s32 q6, q6, r2\n"                                            \
            "vqrdmulh.s32 q7, q7, r4\n"                                            \
            "vdup.16 q0, r7\n"                                                     \
            "vqmovnb.s32 q6, q6\n"                                                 \
            "vqmovnt.s32 q6, q7\n"                                                 \
            "vmax.s16 q6, q6, q0\n"                                                \
            "ldm r11, {r0, r1, r2, r4}\n"                                          \
            "vstrw.32 q6, [r0, q5]\n"                                              \
            "add r0, r2\n"                                                         \
            "adds r1, #" x_step "\n"                                               \
            "stm r11, {r0, r1}\n"                                                  \
            "cmp r0, r4\n"                                                         \
            "bne.w 1b\n"                                                           \
            "ldrd r2, r5, [r11, #48]\n" /* the next row */                         \
            "ldrd r6, r7, [r11, #56]\n"                                            \
            "add r1, r5\n"                                                         \
            "add r0, r6\n"                                                         \
            "stm r11, {r0, r1}\n"                                                  \
            "add r4, r7\n"                                                         \
            "str r4, [r11, #12]\n"                                                 \
            "subs r2, #1\n"                                                        \
            "str r2, [r11, #48]\n"                                                 \
            "bne.w 1b\n"                                                           \
            "pop {r7, r11}\n"                                                      \
            : "+r"(r0)                                                             \
            :                                                                      \
            : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", \
              "q6", "q7", "cc", "memory");                                         \
    }

FOURS(fours, ROW_AT_STRIDE_1, "64")
FOURS(fours_at_stride_2, ROW_AT_STRIDE_2, "128")

/* `count` pixels, a multiple of four, of `rows` rows from `column` on. */
static void columns(const params *p, const int8_t *planes, int8_t *y, int32_t rows, const int32_t *numbers, const void *weights,
                    int32_t column, int32_t count) {
    state s;
    s.x = planes + column * p->stride_w * 16;
    s.y = y + column * p->out_c;
    s.y_step = PIXELS * p->out_c;
    s.row_end = s.y + count * p->out_c;
    s.weights = weights;
    s.planes = p->planes;
    s.biases = s.bias;
    for (int32_t pixel = 0; pixel < PIXELS; pixel++) {
        s.places[pixel] = pixel * p->out_c;
        s.bias[pixel] = numbers[0], s.bias[PIXELS + pixel] = numbers[1];
    }
    s.factor[0] = numbers[2], s.factor[1] = numbers[3];
    s.low = p->signs ? 0 : INT16_MIN;
    s.distance = p->plane_bytes;
    s.rows_left = rows;
    s.x_skip = p->stride_h * p->planes * p->plane_bytes - count * p->stride_w * 16;
    s.y_row = p->out_w * p->out_c;
    s.y_skip = s.y_row - count * p->out_c;
    if (p->stride_w == 1) {
        fours(&s);
    } else {
        fours_at_stride_2(&s);
    }
}

/* All pixels of some rows, for two channels. */
static void twos(const params *p, const int8_t *planes, int8_t *y, int32_t rows, const int32_t *numbers, const void *weights) {
    columns(p, planes, y, rows, numbers, weights, 0, p->out_w & ~(PIXELS - 1));
    if (p->out_w & (PIXELS - 1)) { /* the last four again */
        columns(p, planes, y, rows, numbers, weights, p->out_w - PIXELS, PIXELS);
    }
}

/* The sums for all channels; two channels have `words_of_plane` words of weights in a plane. */
static inline void all_twos(const params *p, const int8_t *planes, int8_t *y, int32_t rows, int32_t words_of_plane) {
    const int32_t *constants = p->constants;
    for (int32_t channel = 0; channel < p->out_c; channel += WORD) {
        twos(p, planes, y + channel, rows, constants, constants + NUMBERS);
        constants += NUMBERS + words_of_plane * p->planes;
    }
}

#endif

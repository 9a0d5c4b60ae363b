/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by 3x3 of 16-bit inputs, one channel at a time, at stride 1 or 2 both ways.
 *
 * The rows under some rows of outputs are gathered into a plane, with their padding. Two neighbours of it are a word, which SMLAD multiplies
 * by two weights; four outputs of a row are made together. Registers: r0 plane, r1-r3 a row of it, r4-r7 sums, r8-r12 lr the kernel: of each
 * row weights 0 and 1, then 1 and 2. */
#include "dot16.h"

#include <string.h>

#if PILLION_HAS_DSP

typedef pillion_depthwise_3x3_s16_dsp_params params;

/* What the loop keeps on its stack. */
typedef struct {
    const int16_t *x, *x_end;      /* of a row of outputs in the plane; moves */
    int16_t *y;                    /* 8 */
    int32_t pixel, pitch;          /* 12 16: bytes, of y and of the plane */
    int32_t bias, factor;          /* 20 24 */
    int32_t x_skip, x_row, y_skip; /* 28 32 36: from the end of a row to the next one, and from end to end */
    int32_t rows;                  /* 40 */
} loop;
PILLION_FIELDS_AT(loop, 0, x, x_end, y, pixel, pitch, bias, factor, x_skip, x_row, y_skip, rows);

/* A row of four outputs: sums `s` grow from `from`. */
#define ROW(w, v, s4, s5, s6)                   \
    "ldm r0, {r1, r2, r3}\n"                    \
    "smlad r4, r1, " w ", " s4 "\n"             \
    "smlatb r5, r1, " w ", " s5 "\n"            \
    "smlad r6, r2, " w ", " s6 "\n"             \
    "smlabt r4, r2, " v ", r4\n"                \
    "smlad r5, r2, " v ", r5\n"                 \
    "smlatb r7, r2, " w ", r7\n"                \
    "smlabt r6, r3, " v ", r6\n"                \
    "smlad r7, r3, " v ", r7\n"
#define SPLIT_ROW(w, v, s4, s5, s6)             \
    "ldm r0, {r1, r2, r3}\n"                    \
    "smlad r4, r1, " w ", " s4 "\n"             \
    "smlad r5, r2, " w ", " s5 "\n"             \
    "smlad r6, r3, " w ", " s6 "\n"             \
    "smlabt r4, r2, " v ", r4\n"                \
    "smlabt r5, r3, " v ", r5\n"                \
    "ldrd r1, r2, [r0, #12]\n"                  \
    "smlad r7, r1, " w ", r7\n"                 \
    "smlabt r6, r1, " v ", r6\n"                \
    "smlabt r7, r2, " v ", r7\n"
#define NEXT_ROW "ldr r1, [sp, #16]\n" "add r0, r1\n"

#define OUTPUTS(name, row, step, saturate)                                                                     \
    PILLION_NAKED static void name(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *kernel) { \
        __asm volatile("push {r4-r11, lr}\n"                                                           \
                       "ldmia r0, {r2-r12}\n"                                                          \
                       "push {r2-r12}\n"                                                               \
                       "ldmia r1, {r8-r12, lr}\n"                                                      \
                       "ldr r0, [sp]\n"                                                                \
                       "1:\n"                                                                          \
                       "add r1, r0, #" step "\n"                                                       \
                       "str r1, [sp]\n"                                                                \
                       "ldr r7, [sp, #20]\n" row("r8", "r9", "r7", "r7", "r7")                         \
                       NEXT_ROW row("r10", "r11", "r4", "r5", "r6") NEXT_ROW row("r12", "lr", "r4", "r5", "r6") \
                       "ldr r1, [sp, #24]\n" ROUND_16(saturate, "r4", "r1") ROUND_16(saturate, "r5", "r1") ROUND_16(saturate, "r6", "r1") ROUND_16(saturate, "r7", "r1") \
                       "ldrd r0, r1, [sp, #8]\n"                                                       \
                       "strh r4, [r0]\n"                                                               \
                       "strh r5, [r0, r1]\n"                                                           \
                       "add r0, r0, r1, lsl #1\n"                                                      \
                       "strh r6, [r0]\n"                                                               \
                       "strh r7, [r0, r1]\n"                                                           \
                       "add r0, r0, r1, lsl #1\n"                                                      \
                       "str r0, [sp, #8]\n"                                                            \
                       "ldrd r0, r1, [sp]\n"                                                           \
                       "cmp r0, r1\n"                                                                  \
                       "bne 1b\n"                                                                      \
                       "ldrd r2, r3, [sp, #28]\n"                                                      \
                       "add r0, r2\n"                                                                  \
                       "add r1, r3\n"                                                                  \
                       "str r1, [sp, #4]\n"                                                            \
                       "ldr r2, [sp, #8]\n"                                                            \
                       "ldrd r3, r1, [sp, #36]\n"                                                      \
                       "add r2, r3\n"                                                                  \
                       "str r2, [sp, #8]\n"                                                            \
                       "subs r1, #1\n"                                                                 \
                       "str r1, [sp, #40]\n"                                                           \
                       "bne 1b\n"                                                                      \
                       "add sp, sp, #44\n"                                                             \
                       "pop {r4-r11, pc}\n");                                                          \
    }

OUTPUTS(all_columns, ROW, "8", SIGNED)
OUTPUTS(half_columns, SPLIT_ROW, "16", SIGNED)
OUTPUTS(rectified_all_columns, ROW, "8", RECTIFIED)
OUTPUTS(rectified_half_columns, SPLIT_ROW, "16", RECTIFIED)

/* Rows of outputs of a channel, in fours of columns; not none. Columns and rows of y are so many bytes apart. */
static void fours_of_columns(const params *p, const int16_t *plane, int16_t *y, int32_t y_column, int32_t y_row, int32_t rows,
                             int32_t fours, const int32_t *numbers) {
    const int32_t s = p->stride, row = s * p->pitch, width = 8 * s * fours;
    const loop now = {plane, plane + width / 2, y, y_column, p->pitch, numbers[0], numbers[1], row - width, row,
                      y_row - y_column * 4 * fours, rows};
    if (pillion_dsp_is_rectified(p->low, p->high)) {
        (s == 1 ? rectified_all_columns : rectified_half_columns)(&now, numbers + 2);
    } else {
        (s == 1 ? all_columns : half_columns)(&now, numbers + 2);
    }
}

/* All rows of outputs of a channel; columns beyond the last four go through a buffer. */
static void outputs(const params *p, const int16_t *plane, int16_t *y, int32_t rows, const int32_t *numbers, int16_t *buffer) {
    const int32_t fours = p->out_w / 4, rest = p->out_w % 4;
    if (fours) {
        fours_of_columns(p, plane, y, 2 * p->y_column, 2 * p->y_row, rows, fours, numbers);
    }
    if (rest) {
        fours_of_columns(p, plane + 4 * p->stride * fours, buffer, 2, 8, rows, 1, numbers);
        for (int16_t *to = y + 4 * fours * p->y_column; rows > 0; rows--, to += p->y_row, buffer += 4) {
            for (int32_t i = 0; i < rest; i++) {
                to[i * p->y_column] = buffer[i];
            }
        }
    }
}

/* A channel of the rows from image row `top` on; what lies outside the image stays as it is. */
static void gather(const params *p, const int16_t *image, int32_t top, int32_t rows, int16_t *plane) {
    const int32_t room = p->pitch / 2 - p->pad_left, columns = room < p->in_w ? room : p->in_w, step = p->x_column;
    const int32_t first = top < 0 ? 0 : top, end = top + rows < p->in_h ? top + rows : p->in_h;
    const int16_t *from = image + first * p->x_row;
    int16_t *to = plane + (first - top) * (p->pitch / 2) + p->pad_left;
    for (int32_t row = first; row < end; row++, from += p->x_row, to += p->pitch / 2) {
        const int16_t *x = from;
        int32_t i = 0;
        for (; i < columns - 3; i += 4, x += 4 * step) {
            to[i] = x[0], to[i + 1] = x[step], to[i + 2] = x[2 * step], to[i + 3] = x[3 * step];
        }
        for (; i < columns; i++, x += step) {
            to[i] = x[0];
        }
    }
}

void pillion_depthwise_3x3_s16_dsp(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t s = p->stride, filters = p->filters, results = p->out_h * p->out_w * p->channels * filters;
    int16_t *const plane = (int16_t *)scratch + 4 * p->band;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->channels) {
        for (int32_t row = 0; row < p->out_h; row += p->band) {
            const int32_t left = p->out_h - row, rows = left < p->band ? left : p->band, plane_rows = (rows - 1) * s + 3;
            int16_t *const out = y + n * results + row * p->y_row;
            memset(plane, 0, (size_t)(plane_rows * p->pitch));
            for (int32_t c = 0; c < p->channels; c++) {
                gather(p, x + c, row * s - p->pad_top, plane_rows, plane);
                for (int32_t f = c * filters; f < (c + 1) * filters; f++) {
                    outputs(p, plane, out + f, rows, p->numbers + 8 * f, scratch);
                }
            }
        }
    }
    if (!pillion_dsp_is_rectified(p->low, p->high)) {
        pillion_dsp_clamp_16(y, p->batch * results, p->low, p->high);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by 3x3 of 16-bit inputs, one channel at a time, at stride 1 or 2 both ways.
 *
 * The rows under some rows of outputs are copied into a plane, with their padding. Two neighbours of it are a word, which SMLAD multiplies
 * by two weights; four outputs of a row are made together, and the last one or two. Registers: r0 plane, r1-r3 a row of it, r4-r7 sums,
 * r8-r12 lr the kernel: of each row weights 0 and 1, then 1 and 2. */
#include "dot16.h"

typedef int16_t element;
#define COPY_LOAD "ldrsh"
#define COPY_BITS 16
#include "channel_copy.h"

#include <string.h>

#if PILLION_HAS_DSP

typedef pillion_depthwise_3x3_s16_dsp_params params;

/* What the loop keeps on its stack, before a bias and a factor. */
typedef struct {
    int16_t *y;
    int32_t pixel, fourth; /* 4 8: bytes of y, from there and from the third of four to the next; 0 where there is no fourth */
    int32_t back;          /* 12: from the last row of four windows to the first one of the next */
    const int16_t *x_end;  /* 16: of the fours of a row of outputs in the plane; moves */
    int32_t x_skip, width; /* 20 24: from the end of a row to the next one, and of its fours */
    int32_t y_skip, rows;  /* 28 32 */
    int32_t pitch;         /* 36 */
    int32_t rest, second;  /* 40 44: outputs of a row behind the fours; as `fourth`, of two */
} loop;
PILLION_FIELDS_AT(loop, 0, y, pixel, fourth, back, x_end, x_skip, width, y_skip, rows, pitch, rest, second);

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
/* The same of two outputs. */
#define PAIR(w, v, s4, s5)                      \
    "ldrd r1, r2, [r0]\n"                       \
    "smlad r4, r1, " w ", " s4 "\n"             \
    "smlatb r5, r1, " w ", " s5 "\n"            \
    "smlabt r4, r2, " v ", r4\n"                \
    "smlad r5, r2, " v ", r5\n"
#define SPLIT_PAIR(w, v, s4, s5)                \
    "ldm r0, {r1, r2, r3}\n"                    \
    "smlad r4, r1, " w ", " s4 "\n"             \
    "smlad r5, r2, " w ", " s5 "\n"             \
    "smlabt r4, r2, " v ", r4\n"                \
    "smlabt r5, r3, " v ", r5\n"
#define NEXT_ROW "ldr r1, [sp, #36]\n" "add r0, r1\n"

/* All rows of outputs of a channel, whose numbers are bias, factor, and the kernel. The last three of a row are four without the last; `moved`
 * are the bytes of the plane that four outputs pass. The store of an output that is not there comes before that of its neighbour, in the same place. */
#define OUTPUTS(name, row, pair, moved, saturate)                                                       \
    PILLION_NAKED static void name(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *numbers, \
                                   PILLION_UNUSED const int16_t *plane) {                               \
        __asm volatile("push {r4-r11, lr}\n"                                                            \
                       "ldrd r4, r5, [r1], #8\n"                                                        \
                       "push {r4-r5}\n"                                                                 \
                       "ldrd r4, r5, [r0, #40]\n"                                                       \
                       "push {r4-r5}\n"                                                                 \
                       "ldmia r0, {r3-r12}\n"                                                           \
                       "push {r3-r12}\n"                                                                \
                       "ldmia r1, {r8-r12, lr}\n"                                                       \
                       "mov r0, r2\n"                                                                   \
                       "ldr r5, [sp, #16]\n"                                                            \
                       "1:\n"                                                                           \
                       "cmp r0, r5\n"                                                                   \
                       "beq 3f\n"                                                                       \
                       "2:\n"                                                                           \
                       "ldr r7, [sp, #48]\n" row("r8", "r9", "r7", "r7", "r7")                          \
                       NEXT_ROW row("r10", "r11", "r4", "r5", "r6") NEXT_ROW row("r12", "lr", "r4", "r5", "r6") \
                       "ldr r1, [sp, #52]\n" ROUND_16(saturate, "r4", "r1") ROUND_16(saturate, "r5", "r1") ROUND_16(saturate, "r6", "r1") ROUND_16(saturate, "r7", "r1") \
                       "ldm sp, {r1-r3}\n"                                                              \
                       "strh r4, [r1]\n"                                                                \
                       "strh r5, [r1, r2]\n"                                                            \
                       "add r1, r1, r2, lsl #1\n"                                                       \
                       "strh r7, [r1, r3]\n"                                                            \
                       "strh r6, [r1]\n"                                                                \
                       "add r1, r1, r2, lsl #1\n"                                                       \
                       "str r1, [sp]\n"                                                                 \
                       "ldrd r1, r2, [sp, #12]\n"                                                       \
                       "add r0, r1\n"                                                                   \
                       "cmp r0, r2\n"                                                                   \
                       "bne 2b\n"                                                                       \
                       "3:\n"                                                                           \
                       "ldrd r3, r4, [sp, #40]\n"                                                       \
                       "cmp r3, #0\n"                                                                   \
                       "beq 5f\n"                                                                       \
                       "cmp r3, #3\n"                                                                   \
                       "bne 4f\n"                                                                       \
                       "ldr r3, [sp, #8]\n"                                                             \
                       "cmp r3, #0\n"                                                                   \
                       "beq 5f\n"                                                                       \
                       "add r1, r0, #" moved "\n"                                                       \
                       "str r4, [sp, #8]\n"                                                             \
                       "str r1, [sp, #16]\n"                                                            \
                       "b 2b\n"                                                                         \
                       "4:\n"                                                                           \
                       "ldr r5, [sp, #48]\n" pair("r8", "r9", "r5", "r5")                               \
                       NEXT_ROW pair("r10", "r11", "r4", "r5") NEXT_ROW pair("r12", "lr", "r4", "r5")    \
                       "ldr r1, [sp, #52]\n" ROUND_16(saturate, "r4", "r1") ROUND_16(saturate, "r5", "r1") \
                       "ldrd r1, r2, [sp]\n"                                                            \
                       "ldr r3, [sp, #44]\n"                                                            \
                       "strh r5, [r1, r3]\n"                                                            \
                       "strh r4, [r1]\n"                                                                \
                       "add r1, r1, r2, lsl #1\n"                                                       \
                       "str r1, [sp]\n"                                                                 \
                       "ldr r1, [sp, #12]\n"                                                            \
                       "add r0, r1\n"                                                                   \
                       "sub r0, #" moved " / 2\n"                                                       \
                       "5:\n"                                                                           \
                       "ldm sp, {r1-r7}\n"                                                              \
                       "mov r3, r2\n"                                                                   \
                       "add r0, r6\n"                                                                   \
                       "add r5, r0, r7\n"                                                               \
                       "ldrd r6, r7, [sp, #28]\n"                                                       \
                       "add r1, r6\n"                                                                   \
                       "stm sp, {r1-r5}\n"                                                              \
                       "subs r7, #1\n"                                                                  \
                       "str r7, [sp, #32]\n"                                                            \
                       "bne 1b\n"                                                                       \
                       "add sp, sp, #56\n"                                                              \
                       "pop {r4-r11, pc}\n");                                                           \
    }

OUTPUTS(all_columns, ROW, PAIR, "8", SIGNED)
OUTPUTS(half_columns, SPLIT_ROW, SPLIT_PAIR, "16", SIGNED)
OUTPUTS(rectified_all_columns, ROW, PAIR, "8", RECTIFIED)
OUTPUTS(rectified_half_columns, SPLIT_ROW, SPLIT_PAIR, "16", RECTIFIED)

typedef void (*outputs_of_channel)(const loop *, const int32_t *, const int16_t *);

/* The loop over rows of outputs. */
static loop loop_of(const params *p, const int16_t *plane, int16_t *y, int32_t rows) {
    const int32_t s = p->stride, fours = p->out_w / 4, rest = p->out_w % 4, pairs = 2 * fours + (rest + 1) / 2, pixel = 2 * p->y_column;
    const loop l = {y, pixel, pixel, 8 * s - 2 * p->pitch, plane + 4 * s * fours, s * (p->pitch - 4 * pairs), 8 * s * fours,
                    2 * p->y_row - 2 * pairs * pixel, rows, p->pitch, rest, rest == 2 ? pixel : 0};
    return l;
}

/* A channel of the rows from image row `first` on. */
static channel_copy copy_of_rows(const params *p, int32_t first, int32_t end) {
    const int32_t pitch = p->pitch / 2, room = pitch - p->pad_left, columns = room < p->in_w ? room : p->in_w;
    return copy_of(end - first, columns, 2 * p->x_column, 2 * p->x_row, p->pad_left, pitch);
}

/* A band of rows of outputs of all channels, whose plane begins at image row `top`. */
static void band(const params *p, const int16_t *x, int32_t top, int32_t rows, int16_t *y, int16_t *plane, outputs_of_channel outputs) {
    const int32_t plane_rows = (rows - 1) * p->stride + 3, behind = top + plane_rows;
    const int32_t first = top < 0 ? 0 : top, end = behind < p->in_h ? behind : p->in_h;
    const channel_copy copy = copy_of_rows(p, first, end);
    const int32_t *numbers = p->numbers;
    int16_t *const inside = plane + (first - top) * (p->pitch / 2) + p->pad_left;
    loop l = loop_of(p, plane, y, rows);
    memset(plane, 0, (size_t)(plane_rows * p->pitch));
    for (int32_t c = 0; c < p->channels; c++) {
        if (copy.rows > 0) {
            copy_channel(&copy, x + first * p->x_row + c, inside);
        }
        for (int32_t f = 0; f < p->filters; f++, l.y++, numbers += 8) {
            outputs(&l, numbers, plane);
        }
    }
}

void pillion_depthwise_3x3_s16_dsp(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t is_rectified = pillion_dsp_is_rectified(p->low, p->high), results = p->out_h * p->out_w * p->channels * p->filters;
    const outputs_of_channel rectified = p->stride == 1 ? rectified_all_columns : rectified_half_columns;
    const outputs_of_channel outputs = is_rectified ? rectified : p->stride == 1 ? all_columns : half_columns;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->channels) {
        for (int32_t row = 0; row < p->out_h; row += p->band) {
            const int32_t left = p->out_h - row, rows = left < p->band ? left : p->band;
            band(p, x, row * p->stride - p->pad_top, rows, y + n * results + row * p->y_row, scratch, outputs);
        }
    }
    if (!is_rectified) {
        pillion_dsp_clamp_16(y, p->batch * results, p->low, p->high);
    }
}
#endif

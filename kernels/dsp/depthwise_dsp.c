/* SPDX-License-Identifier: Apache-2.0
 * What all depthwise convolutions share: the plane of a channel, and the walk over the channels. */
#include "asm_function.h"
#include "depthwise.h"
#include "dot.h"

#if PILLION_HAS_DSP

#define TOGETHER 4 /* outputs of a row */

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* How to copy a channel: what the image has of the plane, row by row. */
typedef struct {
    int32_t c; /* bytes from one pixel to the next */
    int32_t fours, rows;
    int32_t x_skip, to_skip; /* from the end of a row to the next */
    uint32_t ends; /* 1: a number before the first whole word; 2: two after the fours; 4: one at the end */
} channel_copy;

static channel_copy copy_of(const pillion_depthwise_s8_dsp_params *p, int32_t plane_rows, int32_t plane_columns) {
    const int32_t reach = least(p->in_w, plane_columns - p->pad_left);
    const int32_t columns = reach > 0 ? reach : 0;
    const int32_t before = p->pad_left % 2 != 0 && columns > 0;
    const int32_t after = columns - before;
    const channel_copy copy = {p->in_c,
                               after / 4,
                               least(p->in_h, plane_rows - p->pad_top),
                               (p->in_w - columns) * p->in_c,
                               2 * (plane_columns - columns),
                               (uint32_t)(before | (after & 2) | (after & 1) << 2)};
    return copy;
}

/* r0 plane, r1 x, r2 c, r3 fours, r4 rows, r5 x_skip, r6 to_skip, r7 ends, r8 3 c, r9-r12 four numbers, lr fours left. */
ASM_FUNCTION static void copy_channel(UNUSED const channel_copy *copy, UNUSED const int8_t *x, UNUSED int16_t *to) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r0\n"
                   "mov r0, r2\n"
                   "ldmia r12, {r2-r7}\n"
                   "add r8, r2, r2, lsl #1\n"
                   "1:\n"
                   "lsls r9, r7, #31\n"
                   "beq 2f\n"
                   "ldrsb r9, [r1]\n"
                   "strh r9, [r0], #2\n"
                   "add r1, r1, r2\n"
                   "2:\n"
                   "movs lr, r3\n"
                   "beq 4f\n"
                   "3:\n"
                   "ldrsb r9, [r1]\n"
                   "ldrsb r10, [r1, r2]\n"
                   "ldrsb r11, [r1, r2, lsl #1]\n"
                   "ldrsb r12, [r1, r8]\n"
                   "add r1, r1, r2, lsl #2\n"
                   "pkhbt r9, r9, r10, lsl #16\n"
                   "pkhbt r11, r11, r12, lsl #16\n"
                   "strd r9, r11, [r0], #8\n"
                   "subs lr, lr, #1\n"
                   "bne 3b\n"
                   "4:\n"
                   "lsls r9, r7, #30\n" /* negative: two more; carry: one more */
                   "bpl 5f\n"
                   "ldrsb r9, [r1]\n"
                   "ldrsb r10, [r1, r2]\n"
                   "add r1, r1, r2, lsl #1\n"
                   "pkhbt r9, r9, r10, lsl #16\n"
                   "str r9, [r0], #4\n"
                   "5:\n"
                   "bcc 6f\n"
                   "ldrsb r9, [r1]\n"
                   "strh r9, [r0], #2\n"
                   "add r1, r1, r2\n"
                   "6:\n"
                   "add r1, r1, r5\n"
                   "add r0, r0, r6\n"
                   "subs r4, r4, #1\n"
                   "bgt 1b\n"
                   "pop {r4-r11, pc}\n");
}

static void fill(int16_t *to, int32_t count, int32_t value) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int16_t)value;
    }
}

/* An image without rows or columns in reach of the windows leaves the plane as it is. */
static inline int is_empty(const channel_copy *copy) {
    return copy->rows <= 0 || (copy->fours == 0 && copy->ends == 0);
}

void pillion_dsp_depthwise(const pillion_depthwise_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                           pillion_dsp_channel_method *method) {
    const int32_t fours = (p->out_w + TOGETHER - 1) / TOGETHER;
    const int32_t columns = ((TOGETHER * fours - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 2) & ~1;
    const int32_t rows = (p->out_h - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
    const channel_copy copy = copy_of(p, rows, columns);
    int16_t *const plane = scratch;
    int16_t *const image = plane + p->pad_top * columns + p->pad_left;
    fill(plane, rows * columns, p->in_zp);
    pillion_dsp_channel channel = {.pitch = 2 * columns, .stride = p->out_c, .rows = p->out_h, .layer = p};
    channel.rest = p->out_w % TOGETHER;
    channel.row_bytes = 2 * p->stride_w * (p->out_w - channel.rest);
    channel.x_skip = 2 * (p->stride_h * columns - p->stride_w * TOGETHER * fours);
    channel.rectified = (uint32_t)p->rectified;
    const int32_t multiplier = p->out_c / p->in_c;
    for (int32_t n = 0; n < p->batch; n++) {
        const int32_t *constants = p->constants;
        const int8_t *weights = p->weights;
        for (int32_t c = 0; c < p->out_c; c++, constants += 3, weights += p->kernel_h * p->kernel_w) {
            if (c % multiplier == 0 && !is_empty(&copy)) {
                copy_channel(&copy, x + c / multiplier, image);
            }
            channel.bias = constants[0], channel.round = constants[1], channel.multiplier = constants[2];
            channel.right = __builtin_ctz((uint32_t)channel.round) + 1;
            channel.x = plane, channel.y = y + c;
            channel.unpacked = weights;
            method(&channel);
        }
        x += p->in_h * p->in_w * p->in_c, y += p->out_h * p->out_w * p->out_c;
    }
    const int32_t count = p->batch * p->out_h * p->out_w * p->out_c;
    pillion_dsp_clamp(y - count, count, p->low, p->high);
}
#endif

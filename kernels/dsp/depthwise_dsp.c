/* SPDX-License-Identifier: Apache-2.0
 * What all depthwise convolutions share: the plane of a channel, and the walk over the channels. The copy into the plane takes
 * four pixels of a row to a step and four steps to a round, which the first round enters where it must.
 * Registers: r0 plane, r1 x, r2 from pixel to pixel, r3 rounds, r4 rows, r5 and r6 from row to row of x and of the plane, r8
 * three pixels, r9-r12 four numbers, lr rounds left. On the stack: where a row, its fours and its rest begin. */
#include "pillion/assembly.h"
#include "depthwise.h"
#include "dot.h"

#if PILLION_HAS_DSP

#define TOGETHER 4 /* outputs of a row */
#define FOURS_OF_ROUND 4 /* in copy_channel */
#define FOUR_BYTES 32    /* of code */

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* How to copy a channel: what the image has of the plane, row by row. */
typedef struct {
    int32_t step; /* bytes from one pixel of a row to the next */
    int32_t rounds, rows;      /* of FOURS_OF_ROUND fours each, the first of which may be short */
    int32_t x_skip, to_skip;   /* from the end of a row to the next */
    uint32_t start, whole, rest; /* where copy_channel begins a row, its fours, and what is left then */
} channel_copy;
PILLION_FIELDS_AT(channel_copy, 0, step, rounds, rows, x_skip, to_skip, start, whole, rest);

#define PLACE(name) ".global pillion_dsp_copy_" name "\n" "pillion_dsp_copy_" name ":\n"
extern const uint8_t pillion_dsp_copy_head[], pillion_dsp_copy_fours[], pillion_dsp_copy_pair[],
    pillion_dsp_copy_three[], pillion_dsp_copy_one[], pillion_dsp_copy_end[];

/* Rows of the plane are columns of the image where the layer is transposed. */
static channel_copy copy_of(const pillion_depthwise_s8_dsp_params *p, int32_t plane_rows, int32_t plane_columns) {
    static const uint8_t *const rests[4] = {pillion_dsp_copy_end, pillion_dsp_copy_one, pillion_dsp_copy_pair,
                                            pillion_dsp_copy_three};
    const int32_t step = p->transposed != 0 ? p->in_h * p->in_c : p->in_c;
    const int32_t row_step = p->transposed != 0 ? p->in_c : p->in_w * p->in_c;
    const int32_t reach = least(p->in_w, plane_columns - p->pad_left);
    const int32_t columns = reach > 0 ? reach : 0;
    const int32_t head = p->pad_left % 2 != 0 && columns > 0; /* a number before the first whole word */
    const int32_t fours = (columns - head) / 4;
    const uint8_t *const rest = rests[(columns - head) % 4];
    const uint8_t *const whole = fours > 0 ? pillion_dsp_copy_fours + (-fours & (FOURS_OF_ROUND - 1)) * FOUR_BYTES : rest;
    const channel_copy copy = {step,
                               (fours + FOURS_OF_ROUND - 1) / FOURS_OF_ROUND,
                               columns > 0 ? least(p->in_h, plane_rows - p->pad_top) : 0,
                               row_step - columns * step,
                               2 * (plane_columns - columns),
                               pillion_thumb(head ? pillion_dsp_copy_head : whole),
                               pillion_thumb(whole),
                               pillion_thumb(rest)};
    return copy;
}

#define ONE                   \
    "ldrsb r9, [r1]\n"        \
    "strh r9, [r0], #2\n"     \
    "add r1, r1, r2\n"
#define TWO                           \
    "ldrsb r9, [r1]\n"                \
    "ldrsb r10, [r1, r2]\n"           \
    "add r1, r1, r2, lsl #1\n"        \
    "pkhbt r9, r9, r10, lsl #16\n"    \
    "str r9, [r0], #4\n"
/* FOUR_BYTES long. */
#define FOUR                            \
    "ldrsb.w r9, [r1]\n"                \
    "ldrsb.w r10, [r1, r2]\n"           \
    "ldrsb.w r11, [r1, r2, lsl #1]\n"   \
    "ldrsb.w r12, [r1, r8]\n"           \
    "add.w r1, r1, r2, lsl #2\n"        \
    "pkhbt r9, r9, r10, lsl #16\n"      \
    "pkhbt r11, r11, r12, lsl #16\n"    \
    "strd r9, r11, [r0], #8\n"
PILLION_NAKED static void copy_channel(PILLION_UNUSED const channel_copy *copy, PILLION_UNUSED const int8_t *x, PILLION_UNUSED int16_t *to) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r0\n"
                   "mov r0, r2\n"
                   "ldmia r12, {r2-r9}\n"
                   "push {r7-r9}\n"
                   "add r8, r2, r2, lsl #1\n"
                   "1:\n"
                   "mov lr, r3\n"
                   "ldr pc, [sp]\n"
                   PLACE("head") ONE
                   "ldr pc, [sp, #4]\n"
                   PLACE("fours")
                   "2:\n"
                   PILLION_REPEAT("2b", FOURS_OF_ROUND, FOUR_BYTES, FOUR)
                   "subs lr, lr, #1\n"
                   "bne.w 2b\n"
                   "ldr pc, [sp, #8]\n"
                   PLACE("pair") TWO
                   "b 3f\n"
                   PLACE("three") TWO
                   PLACE("one") ONE
                   PLACE("end")
                   "3:\n"
                   "add r1, r1, r5\n"
                   "add r0, r0, r6\n"
                   "subs r4, r4, #1\n"
                   "bgt 1b\n"
                   "add sp, sp, #12\n"
                   "pop {r4-r11, pc}\n");
}

static void fill(int16_t *to, int32_t count, int32_t value) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int16_t)value;
    }
}

/* Where the loop goes on: by the outputs of a row that are no whole four, and by whether negative sums matter. */
static void choose_places(pillion_dsp_channel *channel, const pillion_dsp_method *m, int32_t rest, int32_t rectified) {
    channel->fours = pillion_thumb(rectified != 0 ? m->fours_rectified : m->fours);
    channel->sums = channel->fours;
    channel->end_of_row = pillion_thumb(rest == 0 ? m->next_row : rest == 3 ? m->three_more : m->pair);
    channel->rest = pillion_thumb(rest == 3 ? m->three : rest == 2 ? m->two : m->one);
}

static void all_channels(const pillion_depthwise_s8_dsp_params *p, pillion_dsp_channel *channel, const channel_copy *copy,
                         int16_t *plane, const int8_t *x, int8_t *y, const pillion_dsp_method *method) {
    int16_t *const image = plane + p->pad_top * channel->pitch / 2 + p->pad_left;
    const int32_t *constants = p->constants;
    int32_t copies = 0; /* output channels that the plane is still good for */
    channel->unpacked = p->weights;
    for (int32_t c = 0; c < p->out_c; c++, constants += 3) {
        if (copies == 0) {
            copies = p->out_c / p->in_c;
            if (copy->rows > 0) {
                copy_channel(copy, x, image);
            }
            x++;
        }
        copies--;
        const int32_t round = constants[1];
        channel->bias = constants[0], channel->round = round, channel->multiplier = constants[2];
        channel->right = __builtin_ctz((uint32_t)round) + 1;
        channel->y = y + c;
        method->expand(channel);
        method->rows(channel);
        channel->unpacked += p->kernel_h * p->kernel_w;
    }
}

void pillion_dsp_depthwise(const pillion_depthwise_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                           const pillion_dsp_method *method) {
    const int32_t rest = p->out_w % TOGETHER;
    const int32_t whole = p->out_w - rest;
    const int32_t outputs = whole + (rest == 0 ? 0 : rest == 3 ? 4 : 2);
    const int32_t columns = ((outputs - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 2) & ~1;
    const int32_t rows = (p->out_h - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
    const channel_copy copy = copy_of(p, rows, columns);
    fill(scratch, rows * columns, p->in_zp);
    pillion_dsp_channel channel = {.x = scratch, .pitch = 2 * columns, .rows = p->out_h, .layer = p};
    channel.stride = p->transposed != 0 ? p->out_h * p->out_c : p->out_c;
    channel.y_step = p->transposed != 0 ? p->out_c : p->out_w * p->out_c;
    channel.row_bytes = 2 * p->stride_w * whole;
    channel.x_skip = 2 * p->stride_h * columns - channel.row_bytes;
    channel.y_skip = channel.y_step - whole * channel.stride;
    choose_places(&channel, method, rest, p->rectified);
    const int32_t image_bytes = p->out_h * p->out_w * p->out_c;
    for (int32_t n = 0; n < p->batch; n++) {
        all_channels(p, &channel, &copy, scratch, x + n * p->in_h * p->in_w * p->in_c, y + n * image_bytes, method);
    }
    pillion_dsp_clamp(y, p->batch * image_bytes, p->low, p->high);
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution with any kernel, stride, dilation and padding, 16 channels at a time.
 *
 * The input rows of some output rows are copied into scratch, padding included, 16 bytes to a pixel. `taps` has the offset
 * of each tap from the first pixel of a window. Two taps are multiplied at a time: VMULLB and VMULLT widen to 16 bits, in
 * which two products may be added (|w0| + |w1| <= 255), then to 32. The four vectors of sums are those of the channels
 * {0 4 8 12}, {2 6 10 14}, {1 5 9 13}, {3 7 11 15}, so that narrowing into bottom and top halves restores the order.
 * Where x has but one block of rows, y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "naked.h"

typedef pillion_depthwise_any_s8_mve_params params;

typedef struct {
    const int32_t *taps;          /* r2 */
    const int32_t *constants;     /* r5 */
    const int8_t *x;              /* r3 */
    int32_t pairs;                /* r4 */
    int8_t *y;                    /* r6 */
    int32_t pixels, out_zp;       /* r7 r8 */
    int32_t x_step, y_step;       /* r9 r10 */
    int32_t lanes;                /* predicate of the channels that there are */
    int32_t x_skip, rows;
} state;

/* The products of a tap: bottom halves of q0 times q1 to q2, top halves to q3. */
#define WIDEN_AND_ADD                \
    "vmovlb.s16 q0, q2\n"            \
    "vmovlt.s16 q2, q2\n"            \
    "vmovlb.s16 q1, q3\n"            \
    "vmovlt.s16 q3, q3\n"            \
    "vadd.i32 q4, q4, q0\n"          \
    "vadd.i32 q5, q5, q2\n"          \
    "vadd.i32 q6, q6, q1\n"          \
    "vadd.i32 q7, q7, q3\n"

/* Sums to 32-bit results; multipliers and shifts at these offsets of r5. */
#define REQUANTIZE(q, multipliers, shifts)               \
    "vldrw.u32 q0, [r5, #" multipliers "]\n"             \
    "vldrb.s32 q1, [r5, #" shifts "]\n"                  \
    "vqrdmulh.s32 " q ", " q ", q0\n"                    \
    "vqdmlah.s32 " q ", " q ", r12\n"                    \
    "vrshl.s32 " q ", " q ", q1\n"

NAKED static void outputs(UNUSED const state *s) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"
        "mov r11, r0\n"
        "ldr r0, [r11, #36]\n"
        "vmsr p0, r0\n"
        "add r0, r11, #8\n"
        "ldm r0!, {r3, r4}\n"
        "ldm r0, {r6, r7, r8, r9, r10}\n"
        "movs r12, #1\n"
        "1:\n"
        "ldrd r2, r5, [r11]\n"
        "vldrw.u32 q4, [r5], #16\n" /* bias */
        "vldrw.u32 q5, [r5], #16\n"
        "vldrw.u32 q6, [r5], #16\n"
        "vldrw.u32 q7, [r5], #16\n"
        "wls lr, r4, 3f\n"
        "2:\n"
        "ldrd r0, r1, [r2], #8\n"
        "adds r0, r3\n"
        "adds r1, r3\n"
        "vldrb.u8 q0, [r0]\n"
        "vldrb.u8 q1, [r5], #16\n"
        "vmullb.s8 q2, q0, q1\n"
        "vmullt.s8 q3, q0, q1\n"
        "vldrb.u8 q0, [r1]\n"
        "vldrb.u8 q1, [r5], #16\n"
        "vmullb.s8 q0, q0, q1\n"
        "vadd.i16 q2, q2, q0\n"
        "vldrb.u8 q0, [r1]\n"
        "vmullt.s8 q0, q0, q1\n"
        "vadd.i16 q3, q3, q0\n" WIDEN_AND_ADD
        "le lr, 2b\n"
        "3:\n"
        "ldr r0, [r2]\n"
        "adds r0, r3\n"
        "vldrb.u8 q0, [r0]\n"
        "vldrb.u8 q1, [r5], #16\n"
        "vmullb.s8 q2, q0, q1\n"
        "vmullt.s8 q3, q0, q1\n" WIDEN_AND_ADD REQUANTIZE("q4", "0", "64") REQUANTIZE("q5", "16", "68")
            REQUANTIZE("q6", "32", "72") REQUANTIZE("q7", "48", "76")
        "vqmovnb.s32 q4, q4\n"
        "vqmovnt.s32 q4, q5\n"
        "vqmovnb.s32 q6, q6\n"
        "vqmovnt.s32 q6, q7\n"
        "vqadd.s16 q4, q4, r8\n"
        "vqadd.s16 q6, q6, r8\n"
        "vqmovnb.s16 q4, q4\n"
        "vqmovnt.s16 q4, q6\n"
        "vpst\n"
        "vstrbt.8 q4, [r6]\n"
        "add r6, r10\n"
        "add r3, r9\n"
        "subs r7, #1\n"
        "bne 1b\n"
        "ldrd r0, r1, [r11, #40]\n"
        "ldr r7, [r11, #20]\n"
        "adds r3, r0\n"
        "subs r1, #1\n"
        "str r1, [r11, #44]\n"
        "bne 1b\n"
        "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}

/* Rows from `top` on of 16 channels, with padding on the left and, where rows are outside the image, all over. */
static void load_rows(const params *p, const int8_t *image, int32_t top, int32_t rows, int8_t *to) {
    for (int32_t row = top; row < top + rows; row++, to += p->plane_row_bytes) {
        if (row < 0 || row >= p->in_h) {
            pillion_mve_fill(to, p->in_zp, p->plane_row_bytes);
        } else {
            pillion_mve_copy_plane(to + p->left_bytes, image + row * p->in_row_bytes, p->channels, p->copy_w);
        }
    }
}

/* All channels of some rows of outputs. */
static void block(const params *p, const int8_t *image, int8_t *y, int32_t top, int32_t rows, int8_t *scratch) {
    const int32_t *constants = p->constants;
    for (int32_t c = 0; c < p->channels; c += 16, constants += 36 + 4 * p->tap_count) {
        const int32_t left = p->channels - c;
        state s = {p->taps, constants, scratch, p->tap_count >> 1, y + c, p->out_w, p->out_zp, p->window_step,
                   p->channels, left < 16 ? (1 << left) - 1 : 0xFFFF, p->window_skip, rows};
        load_rows(p, image + c, top, (rows - 1) * p->stride_h + p->window_rows, scratch);
        outputs(&s);
    }
}

void pillion_depthwise_any_s8_mve(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    int8_t *out = y;
    pillion_mve_fill(scratch, p->in_zp, p->scratch_bytes);
    for (int32_t n = 0; n < p->images; n++, x += p->in_h * p->in_row_bytes) {
        for (int32_t oy = 0; oy < p->out_h; oy += p->block_rows) {
            const int32_t rows = p->out_h - oy < p->block_rows ? p->out_h - oy : p->block_rows;
            block(p, x, out, oy * p->stride_h - p->pad_top, rows, scratch);
            out += rows * p->out_w * p->channels;
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

#endif

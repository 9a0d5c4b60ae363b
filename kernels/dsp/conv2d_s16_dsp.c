/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs, five pixels times one output channel at a time.
 *
 * The windows of five pixels lie interleaved in scratch (blocks), two inputs of each pixel in turn. A step takes four inputs: 15
 * instructions for 20 products. Registers: r0 blocks, r1-r5 inputs of the pixels, r6-r10 sums, r11 and lr weights, r12 the stream: of each
 * channel bias, weights, factor. */
#include "dot16.h"

#include <string.h>

#if PILLION_HAS_DSP

typedef pillion_conv2d_s16_dsp_params params;

enum { PIXELS = 5 };
#define UNROLLED 8 /* steps to a round */
#define STEP_BYTES 56

/* What the loop keeps on its stack. */
typedef struct {
    int16_t *y;
    int32_t places[PIXELS];             /* 4: from there to the pixels, in bytes */
    const int32_t *blocks, *blocks_end; /* 24 28 */
    uint32_t entry;                     /* 32: steps that the first round skips, in bytes */
    const int32_t *stream_end;          /* 36 */
} loop;
PILLION_FIELDS_AT(loop, 0, y, places);
PILLION_FIELDS_AT(loop, 24, blocks, blocks_end, entry, stream_end);

#define HALF_STEP(widen)               \
    "ldmia.n r0!, {r1, r2, r3, r4, r5}\n" widen \
    "smlad r6, r1, lr, r6\n"           \
    "smlad r7, r2, lr, r7\n"           \
    "smlad r8, r3, lr, r8\n"           \
    "smlad r9, r4, lr, r9\n"           \
    "smlad r10, r5, lr, r10\n"
#define STEP "ldr r11, [r12], #4\n" HALF_STEP("sxtb16 lr, r11\n") HALF_STEP("sxtb16 lr, r11, ror #8\n")

#define CHANNELS_OF_FIVE(name, saturate)                                                                                                                                                 \
    PILLION_NAKED static void name(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {                                                                                 \
        __asm volatile("push {r4-r11, lr}\n"                                                                                                                                             \
                       "mov r12, r1\n"                                                                                                                                                   \
                       "adr.w r11, 2f\n"                                                                                                                                                 \
                       "ldmia r0, {r1-r10}\n"                                                                                                                                            \
                       "add r9, r9, r11\n"                                                                                                                                               \
                       "add r9, r9, #1\n"                                                                                                                                                \
                       "push {r1-r10}\n"                                                                                                                                                 \
                       "1:\n"                                                                                                                                                            \
                       "ldr r6, [r12], #4\n"                                                                                                                                             \
                       "ldr r0, [sp, #24]\n"                                                                                                                                             \
                       "mov r7, r6\n"                                                                                                                                                    \
                       "mov r8, r6\n"                                                                                                                                                    \
                       "mov r9, r6\n"                                                                                                                                                    \
                       "mov r10, r6\n"                                                                                                                                                   \
                       "ldr pc, [sp, #32]\n"                                                                                                                                             \
                       ".balign 4\n"                                                                                                                                                     \
                       "2:\n" PILLION_REPEAT("2b", UNROLLED, STEP_BYTES, STEP)                                                                                                           \
                       "ldr r1, [sp, #28]\n"                                                                                                                                             \
                       "cmp r0, r1\n"                                                                                                                                                    \
                       "bne.w 2b\n"                                                                                                                                                      \
                       "ldr r11, [r12], #4\n"                                                                                                                                            \
                       "ldmia.w sp, {r0, r1, r2, r3, r4, r5}\n" /* the first place is 0 */                                                                                               \
                       ROUND_16(saturate, "r6", "r11") ROUND_16(saturate, "r7", "r11") ROUND_16(saturate, "r8", "r11") ROUND_16(saturate, "r9", "r11") ROUND_16(saturate, "r10", "r11")  \
                       "strh r7, [r0, r2]\n"                                                                                                                                             \
                       "strh r8, [r0, r3]\n"                                                                                                                                             \
                       "strh r9, [r0, r4]\n"                                                                                                                                             \
                       "strh r10, [r0, r5]\n"                                                                                                                                            \
                       "strh r6, [r0], #2\n"                                                                                                                                             \
                       "str r0, [sp]\n"                                                                                                                                                  \
                       "ldr r1, [sp, #36]\n"                                                                                                                                             \
                       "cmp r12, r1\n"                                                                                                                                                   \
                       "bne.w 1b\n"                                                                                                                                                      \
                       "add sp, sp, #40\n"                                                                                                                                               \
                       "pop {r4-r11, pc}\n");                                                                                                                                            \
    }

CHANNELS_OF_FIVE(channels_of_five, SIGNED)
CHANNELS_OF_FIVE(rectified_channels_of_five, RECTIFIED)

/* Fours of inputs of one pixel into blocks, two at a time; not none. */
#define FOUR                              \
    "ldr %[first], [%[from]], #4\n"       \
    "ldr %[second], [%[from]], #4\n"      \
    "str %[first], [%[to]], #20\n"        \
    "str %[second], [%[to]], #20\n"
static inline void interleave(const int16_t *from, int32_t *to, int32_t fours) {
    int32_t first, second;
    __asm volatile("lsrs %[fours], %[fours], #1\n"
                   "bcc 1f\n" FOUR
                   "cbz %[fours], 2f\n"
                   "1:\n" FOUR FOUR
                   "subs %[fours], %[fours], #1\n"
                   "bne 1b\n"
                   "2:\n"
                   : [from] "+r"(from), [to] "+r"(to), [fours] "+l"(fours), [first] "=&r"(first), [second] "=&r"(second)
                   :
                   : "cc", "memory");
}

static inline void copy(int16_t *to, const int16_t *from, int32_t count) {
    for (; count > 1; count -= 2, to += 2, from += 2) {
        memcpy(to, from, 4);
    }
    if (count > 0) {
        *to = *from;
    }
}

/* The window of an output pixel: in one piece for each kernel row where it lies inside the image and rows are fours, else by a row in
 * scratch, with zeros outside and at its end. */
static void lay_out(const params *p, const int16_t *image, int32_t top, int32_t left, int32_t *blocks, int16_t *window) {
    const int32_t in_c = p->in_c, count = p->kernel_w * in_c;
    const uint32_t reach_h = (uint32_t)(p->in_h - (p->kernel_h - 1) * p->dilation_h);
    const uint32_t reach_w = (uint32_t)(p->in_w - p->kernel_w + 1);
    if ((count & 3) == 0 && (uint32_t)top < reach_h && (uint32_t)left < reach_w && p->whole_rows) {
        const int16_t *x = image + (top * p->in_w + left) * in_c;
        for (int32_t ky = p->kernel_h; ky > 0; ky--, x += p->dilation_h * p->in_w * in_c, blocks += count / 4 * (2 * PIXELS)) {
            interleave(x, blocks, count / 4);
        }
        return;
    }
    int16_t *to = window;
    const int32_t step = p->dilation_w, first = left < 0 ? (step - 1 - left) / step : 0;
    const int32_t end = p->in_w > left ? (p->in_w - left + step - 1) / step : 0, last = end < p->kernel_w ? end : p->kernel_w;
    memset(window, 0, (size_t)(8 * p->steps));
    for (int32_t ky = 0; ky < p->kernel_h; ky++, to += count) {
        const int32_t row = top + ky * p->dilation_h;
        if ((uint32_t)row < (uint32_t)p->in_h && first < last) {
            const int16_t *x = image + (row * p->in_w + left + first * step) * in_c;
            if (step == 1) {
                copy(to + first * in_c, x, (last - first) * in_c);
                continue;
            }
            for (int32_t kx = first; kx < last; kx++, x += step * in_c) {
                copy(to + kx * in_c, x, in_c);
            }
        }
    }
    interleave(window, blocks, p->steps);
}

void pillion_conv2d_s16_dsp(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    int32_t *const blocks = scratch, *const end = blocks + p->steps * (2 * PIXELS);
    const int32_t skipped = (UNROLLED - p->steps % UNROLLED) % UNROLLED, total = p->batch * p->out_h * p->out_w;
    const int32_t is_rectified = pillion_dsp_is_rectified(p->low, p->high);
    loop s = {y, {0}, blocks, end, (uint32_t)(skipped * STEP_BYTES), p->stream + p->out_c * (p->steps + 2)};
    for (int32_t at = 0; at < total; at += PIXELS) {
        int32_t pixel = at;
        s.y = y + at * p->out_c;
        for (int32_t i = 0; i < PIXELS; i++) { /* after the last pixel it stands there again */
            const int32_t row = pixel / p->out_w, column = pixel % p->out_w;
            const int16_t *const image = x + row / p->out_h * (p->in_h * p->in_w * p->in_c);
            lay_out(p, image, row % p->out_h * p->stride_h - p->pad_top, column * p->stride_w - p->pad_left, blocks + i,
                    (int16_t *)(void *)end);
            s.places[i] = 2 * p->out_c * (pixel - at);
            pixel += pixel < total - 1;
        }
        if (is_rectified) {
            rectified_channels_of_five(&s, p->stream);
        } else {
            channels_of_five(&s, p->stream);
        }
    }
    if (!is_rectified) {
        pillion_dsp_clamp_16(y, total * p->out_c, p->low, p->high);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs, five or four pixels times one output channel at a time: what the kernels share whose weights differ.
 *
 * Who includes this defines STEP of a HALF_STEP, the products of four inputs of each pixel (five_windows.h), STEP_BYTES, those of its code, and STEP_WORDS, the words
 * of its weights; STEP_FOURS, if a step has more fours of inputs.
 * Registers: as there; the stream has of each channel bias, weights, factor. */
#ifndef PILLION_DSP_FIVES_H
#define PILLION_DSP_FIVES_H

#include "five_windows.h"

#if PILLION_HAS_DSP

#ifndef STEP_FOURS
#define STEP_FOURS 1
#endif

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

/* The channels of some pixels, `steps` of them a round, from `begin`, before which a sum is in r6, to `end`, which compares; `round` and `store` are those
 * of the fifth pixel. */
#define CHANNELS(name, saturate, begin, steps, end, round, store)                                       \
    PILLION_NAKED static void name(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) { \
        __asm volatile("push {r4-r11, lr}\n"                                                            \
                       "mov r12, r1\n"                                                                  \
                       "adr.w r11, 2f\n"                                                                \
                       "ldmia r0, {r1-r10}\n"                                                           \
                       "add r9, r9, r11\n"                                                              \
                       "add r9, r9, #1\n"                                                               \
                       "push {r1-r10}\n"                                                                \
                       "mov r10, r8\n"                                                                  \
                       "1:\n"                                                                           \
                       "ldr r6, [r12], #4\n"                                                            \
                       "ldr r0, [sp, #24]\n"                                                            \
                       "mov r7, r6\n"                                                                   \
                       "mov r8, r6\n"                                                                   \
                       "mov r9, r6\n" begin                                                             \
                       "ldr pc, [sp, #32]\n"                                                            \
                       ".balign 4\n"                                                                    \
                       "2:\n" steps end                                                                 \
                       "bne.w 2b\n"                                                                     \
                       "ldr r11, [r12], #4\n"                                                           \
                       "ldmia.w sp, {r0, r1, r2, r3, r4, r5}\n" /* the first place is 0 */              \
                       ROUND_16(saturate, "r6", "r11") ROUND_16(saturate, "r7", "r11")                  \
                       ROUND_16(saturate, "r8", "r11") ROUND_16(saturate, "r9", "r11") round            \
                       "strh r7, [r0, r2]\n"                                                            \
                       "strh r8, [r0, r3]\n"                                                            \
                       "strh r9, [r0, r4]\n" store                                                      \
                       "strh r6, [r0], #2\n"                                                            \
                       "str r0, [sp]\n"                                                                 \
                       "ldr r1, [sp, #36]\n"                                                            \
                       "cmp r12, r1\n"                                                                  \
                       "bne.w 1b\n"                                                                     \
                       "add sp, sp, #40\n"                                                              \
                       "pop {r4-r11, pc}\n");                                                           \
    }
#define CHANNELS_OF_FIVE(name, saturate)                                                               \
    CHANNELS(name, saturate, "mov r10, r6\n", PILLION_REPEAT("2b", UNROLLED, STEP_BYTES, STEP(HALF_STEP)), \
             "ldr r1, [sp, #28]\n" "cmp r0, r1\n", ROUND_16(saturate, "r10", "r11"), "strh r10, [r0, r5]\n")
/* The same of four pixels, which leaves r10 for the end of the blocks. */
#define FOUR_STEP_BYTES (STEP_BYTES - 8 * STEP_FOURS)
#define CHANNELS_OF_FOUR(name, saturate)                                                                         \
    CHANNELS(name, saturate, "", PILLION_REPEAT("2b", UNROLLED, FOUR_STEP_BYTES, STEP(HALF_STEP_OF_FOUR)), \
             "cmp r0, r10\n", "", "")

CHANNELS_OF_FIVE(channels_of_five, SIGNED)
CHANNELS_OF_FIVE(rectified_channels_of_five, RECTIFIED)
CHANNELS_OF_FOUR(channels_of_four, SIGNED)
CHANNELS_OF_FOUR(rectified_channels_of_four, RECTIFIED)

/* Whether windows are the pixels of an image, one after another. */
static inline int32_t is_of_pixels(const params *p) {
    return p->kernel_h * p->kernel_w == 1 && p->stride_h * p->stride_w == 1 && p->in_h == p->out_h && p->in_w == p->out_w && p->pad_top == 0;
}

/* Lays out pixels, five at most, that are windows as they are. */
static inline void lay_out_pixels(const params *p, const int16_t *x, int32_t pixels, int32_t *blocks) {
    windows five = {{NULL}, {0}};
    for (int32_t i = 0; i < PIXELS; i++) {
        five.x[i] = x + (i < pixels ? i : pixels - 1) * p->in_c;
    }
    interleave(&five, blocks, (p->in_c + 1) / 2, 1);
}

static inline void convolve(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    int32_t *const blocks = scratch, *const end = blocks + p->steps * (2 * STEP_FOURS * PIXELS);
    const int32_t total = p->batch * p->out_h * p->out_w, in_fours = pixels_in_fours(total);
    const int32_t is_rectified = pillion_dsp_is_rectified(p->low, p->high);
    const int32_t of_pixels = is_of_pixels(p);
    const uint32_t skipped = (uint32_t)(-p->steps & (UNROLLED - 1));
    loop s = {y, {0}, blocks, end, skipped * STEP_BYTES, p->stream + p->out_c * (p->steps * STEP_WORDS + 2)};
    void (*channels)(const loop *, const int32_t *) = is_rectified ? rectified_channels_of_five : channels_of_five;
    window next = {x, -p->pad_top, -p->pad_left};
    int32_t pixels = PIXELS;
    list_places(p, pixels, s.places);
    for (int32_t left = total; left > 0; left -= pixels, s.y = y + (total - left) * p->out_c) {
        if (left < PIXELS && in_fours == 0) {
            pixels = left;
            list_places(p, pixels, s.places);
        } else if (left <= in_fours) {
            pixels = PIXELS - 1;
            s.entry = skipped * FOUR_STEP_BYTES;
            channels = is_rectified ? rectified_channels_of_four : channels_of_four;
        }
        if (of_pixels) {
            lay_out_pixels(p, x + (total - left) * p->in_c, pixels, blocks);
        } else {
            next = lay_out(p, next, pixels, blocks, end);
        }
        channels(&s, p->stream);
    }
    if (!is_rectified) {
        pillion_dsp_clamp_16(y, total * p->out_c, p->low, p->high);
    }
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by any window without dilation of columns, at stride 1 or 2 along a row: the loop over the rows of a channel.
 *
 * A row of the window is one or several parts of two or three words, in the plane and of the kernel. The weights of a part are pairs: those that
 * meet words where an output begins at an even column, at stride 1 also those where it begins at an odd one: (w0 w1) (0 w0) (w2 w3) (w1 w2). Behind
 * them lies how far the next part is, behind the last one how far back the first part is.
 * Who includes this defines PARTS_NAME, with which the names of the places in the loop begin.
 * Registers: r0 part of the plane, r1 of the weights, r7-r10 sums; y and the step from output to output lie on the stack meanwhile. */
#ifndef PILLION_DSP_DEPTHWISE_ANY_H
#define PILLION_DSP_DEPTHWISE_ANY_H

#include "depthwise.h"

#if PILLION_HAS_DSP

#define PARTS_OF_ROUND 5 /* those of a window of 5x5 */
#define FOUR_OF_2_BYTES 44 /* of code */
#define TWO_OF_2_BYTES 28
#define FOUR_OF_3_BYTES 64
#define TWO_OF_3_BYTES 40
#define TWO_OF_3_STRIDE2_BYTES 36

#define FOUR_OF_2                      \
    "ldmia.w r0, {r2-r4}\n"            \
    "ldmia.w r1!, {r5, r6, r11, r12, lr}\n" \
    "smlad r7, r2, r5, r7\n"           \
    "smlad r8, r2, r6, r8\n"           \
    "smlad r9, r3, r5, r9\n"           \
    "smlad r10, r3, r6, r10\n"         \
    "smlad r7, r3, r11, r7\n"          \
    "smlad r8, r3, r12, r8\n"          \
    "smlad r9, r4, r11, r9\n"          \
    "smlad r10, r4, r12, r10\n"        \
    "add.w r0, r0, lr\n"
#define TWO_OF_2                       \
    "ldrd r2, r3, [r0]\n"              \
    "ldmia.w r1!, {r5, r6, r11, r12, lr}\n" \
    "smlad r7, r2, r5, r7\n"           \
    "smlad r8, r2, r6, r8\n"           \
    "smlad r7, r3, r11, r7\n"          \
    "smlad r8, r3, r12, r8\n"          \
    "add.w r0, r0, lr\n"
#define FOUR_OF_3                      \
    "ldmia.w r0, {r2-r5}\n"            \
    "ldmia.w r1!, {r6, r11, r12, lr}\n" \
    "smlad r7, r2, r6, r7\n"           \
    "smlad r8, r2, r11, r8\n"          \
    "smlad r9, r3, r6, r9\n"           \
    "smlad r10, r3, r11, r10\n"        \
    "smlad r7, r3, r12, r7\n"          \
    "smlad r8, r3, lr, r8\n"           \
    "smlad r9, r4, r12, r9\n"          \
    "smlad r10, r4, lr, r10\n"         \
    "ldmia.w r1!, {r6, r11, r12}\n"    \
    "smlad r7, r4, r6, r7\n"           \
    "smlad r8, r4, r11, r8\n"          \
    "smlad r9, r5, r6, r9\n"           \
    "smlad r10, r5, r11, r10\n"        \
    "add.w r0, r0, r12\n"
#define TWO_OF_3                       \
    "ldmia.w r0, {r2-r4}\n"            \
    "ldmia.w r1!, {r6, r11, r12, lr}\n" \
    "smlad r7, r2, r6, r7\n"           \
    "smlad r8, r2, r11, r8\n"          \
    "smlad r7, r3, r12, r7\n"          \
    "smlad r8, r3, lr, r8\n"           \
    "ldmia.w r1!, {r6, r11, r12}\n"    \
    "smlad r7, r4, r6, r7\n"           \
    "smlad r8, r4, r11, r8\n"          \
    "add.w r0, r0, r12\n"
/* At stride 2, where all outputs begin at an even column. */
#define FOUR_OF_2_STRIDE2              \
    "ldmia.w r0, {r2-r6}\n"            \
    "ldmia.w r1!, {r11, r12, lr}\n"    \
    "smlad r7, r2, r11, r7\n"          \
    "smlad r8, r3, r11, r8\n"          \
    "smlad r9, r4, r11, r9\n"          \
    "smlad r10, r5, r11, r10\n"        \
    "smlad r7, r3, r12, r7\n"          \
    "smlad r8, r4, r12, r8\n"          \
    "smlad r9, r5, r12, r9\n"          \
    "smlad r10, r6, r12, r10\n"        \
    "add.w r0, r0, lr\n"
#define TWO_OF_2_STRIDE2               \
    "ldmia.w r0, {r2-r4}\n"            \
    "ldmia.w r1!, {r11, r12, lr}\n"    \
    "smlad r7, r2, r11, r7\n"          \
    "smlad r8, r3, r11, r8\n"          \
    "smlad r7, r3, r12, r7\n"          \
    "smlad r8, r4, r12, r8\n"          \
    "add.w r0, r0, lr\n"
#define FOUR_OF_3_STRIDE2              \
    "ldmia.w r0, {r2-r5}\n"            \
    "ldmia.w r1!, {r6, r11, r12, lr}\n" \
    "smlad r7, r2, r6, r7\n"           \
    "smlad r8, r3, r6, r8\n"           \
    "smlad r9, r4, r6, r9\n"           \
    "smlad r10, r5, r6, r10\n"         \
    "smlad r7, r3, r11, r7\n"          \
    "smlad r8, r4, r11, r8\n"          \
    "smlad r9, r5, r11, r9\n"          \
    "smlad r7, r4, r12, r7\n"          \
    "smlad r8, r5, r12, r8\n"          \
    "ldrd r2, r3, [r0, #16]\n"         \
    "smlad r10, r2, r11, r10\n"        \
    "smlad r9, r2, r12, r9\n"          \
    "smlad r10, r3, r12, r10\n"        \
    "add.w r0, r0, lr\n"
#define TWO_OF_3_STRIDE2               \
    "ldmia.w r0, {r2-r5}\n"            \
    "ldmia.w r1!, {r6, r11, r12, lr}\n" \
    "smlad r7, r2, r6, r7\n"           \
    "smlad r8, r3, r6, r8\n"           \
    "smlad r7, r3, r11, r7\n"          \
    "smlad r8, r4, r11, r8\n"          \
    "smlad r7, r4, r12, r7\n"          \
    "smlad r8, r5, r12, r8\n"          \
    "add.w r0, r0, lr\n"

#define PARTS PILLION_TEXT(PARTS_NAME)

/* What the loop keeps in the place of weights: the parts, where a window of four outputs enters its first round, and one of two; the end of the parts, and
 * the bytes of the plane that four outputs pass. The words of a part are for C. */
enum { WEIGHTS, FOUR_ENTRY, TWO_ENTRY, WEIGHTS_END, PASSED, BIAS, BIAS_AGAIN, WORDS };

/* All parts of a window by the code of one, which is so long; then the results, as in depthwise.h. */
#define ALL_PARTS(place, label, part, bytes, results)                                                \
    PILLION_DSP_PLACE(PARTS, place)                                                                  \
    label ":\n" PILLION_REPEAT(label "b", PARTS_OF_ROUND, bytes, part)                               \
    "ldrd r2, r6, [sp, #72]\n"                                                                       \
    "cmp r1, r2\n"                                                                                   \
    "bne.w " label "b\n"                                                                             \
    "pop {r12, lr}\n" results
#define FOUR_RESULTS "ldmia.w sp, {r2-r4, pc}\n"
#define TWO_RESULTS "ldmia.w sp, {r2-r4}\n" "ldr pc, [sp, #48]\n"

PILLION_NAKED static void rows_of_parts(PILLION_UNUSED const pillion_dsp_channel *channel) {
    __asm volatile(PILLION_DSP_ROWS(PARTS, "#96", PILLION_DSP_COPY("{r1-r10}") PILLION_DSP_COPY("{r1-r10}"), "#80",
                                    "push {r12, lr}\n"
                                    "ldrd r1, r2, [sp, #60]\n"
                                    "ldrd r7, r8, [sp, #80]\n"
                                    "ldrd r9, r10, [sp, #80]\n"
                                    "bx r2\n"
                                    ALL_PARTS("four_of_2", "5", FOUR_OF_2, FOUR_OF_2_BYTES, FOUR_RESULTS)
                                    ALL_PARTS("four_of_3", "5", FOUR_OF_3, FOUR_OF_3_BYTES, FOUR_RESULTS)
                                    ALL_PARTS("four_of_2_stride2", "5", FOUR_OF_2_STRIDE2, FOUR_OF_2_BYTES, FOUR_RESULTS)
                                    ALL_PARTS("four_of_3_stride2", "5", FOUR_OF_3_STRIDE2, FOUR_OF_3_BYTES, FOUR_RESULTS),
                                    "push {r12, lr}\n"
                                    "ldr r1, [sp, #60]\n"
                                    "ldrd r7, r8, [sp, #80]\n"
                                    "ldr pc, [sp, #68]\n"
                                    ALL_PARTS("two_of_2", "6", TWO_OF_2, TWO_OF_2_BYTES, TWO_RESULTS)
                                    ALL_PARTS("two_of_3", "6", TWO_OF_3, TWO_OF_3_BYTES, TWO_RESULTS)
                                    ALL_PARTS("two_of_2_stride2", "6", TWO_OF_2_STRIDE2, TWO_OF_2_BYTES, TWO_RESULTS)
                                    ALL_PARTS("two_of_3_stride2", "6", TWO_OF_3_STRIDE2, TWO_OF_3_STRIDE2_BYTES, TWO_RESULTS), "r6"));
}

static inline int32_t pair_of(int32_t a, int32_t b) {
    return (int32_t)pillion_dsp_expanded((uint32_t)(uint16_t)a | (uint32_t)b << 16);
}

/* The parts of a row, of so many words each: as many as its weights have, or those of the outputs that begin at an odd column. */
static inline int32_t parts_of_row(const pillion_depthwise_s8_dsp_params *p, int32_t words) {
    const int32_t all = p->stride_w == 1 ? p->kernel_w / 2 + 1 : (p->kernel_w + 1) / 2;
    return (all + words - 1) / words;
}

/* 2 or 3, by the instructions of a row. */
static inline int32_t words_of_part(const pillion_depthwise_s8_dsp_params *p) {
    return 16 * parts_of_row(p, 3) < 11 * parts_of_row(p, 2) ? 3 : 2;
}

/* Where a window of so many parts enters the code of parts. */
static inline uint32_t entry_of(const uint8_t *place, int32_t parts, int32_t bytes) {
    return pillion_thumb(place) + (uint32_t)((PARTS_OF_ROUND - 1 - (parts - 1) % PARTS_OF_ROUND) * bytes);
}

#define PLACE_OF_PARTS(place) PLACE_OF_NAME(PARTS_NAME, place)
#define PLACE_OF_NAME(name, place) PLACE_JOINED(name, place)
#define PLACE_JOINED(name, place) pillion_dsp_##name##_##place
extern const uint8_t PLACE_OF_PARTS(four_of_2)[], PLACE_OF_PARTS(four_of_3)[], PLACE_OF_PARTS(four_of_2_stride2)[],
    PLACE_OF_PARTS(four_of_3_stride2)[], PLACE_OF_PARTS(two_of_2)[], PLACE_OF_PARTS(two_of_3)[], PLACE_OF_PARTS(two_of_2_stride2)[],
    PLACE_OF_PARTS(two_of_3_stride2)[];

/* What does not differ from channel to channel: where the loop begins, and the steps from part to part behind the pairs of weights. */
static __attribute__((noinline)) void begin_parts(pillion_dsp_channel *channel) {
    static const struct {
        const uint8_t *four, *two;
        int32_t four_bytes, two_bytes;
    } codes[2][2] = {{{PLACE_OF_PARTS(four_of_2), PLACE_OF_PARTS(two_of_2), FOUR_OF_2_BYTES, TWO_OF_2_BYTES},
                      {PLACE_OF_PARTS(four_of_3), PLACE_OF_PARTS(two_of_3), FOUR_OF_3_BYTES, TWO_OF_3_BYTES}},
                     {{PLACE_OF_PARTS(four_of_2_stride2), PLACE_OF_PARTS(two_of_2_stride2), FOUR_OF_2_BYTES, TWO_OF_2_BYTES},
                      {PLACE_OF_PARTS(four_of_3_stride2), PLACE_OF_PARTS(two_of_3_stride2), FOUR_OF_3_BYTES, TWO_OF_3_STRIDE2_BYTES}}};
    const pillion_depthwise_s8_dsp_params *const p = channel->layer;
    const int32_t words = words_of_part(p), parts = parts_of_row(p, words), all = parts * p->kernel_h, is_half = p->stride_w - 1;
    const int32_t last_row = (p->kernel_h - 1) * p->dilation_h, below = 4 * words * (parts - 1);
    int32_t *const weights = (int32_t *)(uintptr_t)(channel->x + ((p->band - 1) * p->stride_h + last_row + 1) * (channel->pitch / 2)), *to = weights;
    for (int32_t i = 1; i <= all; i++) {
        to += words << !is_half;
        *to++ = i == all ? -last_row * channel->pitch - below : i % parts == 0 ? p->dilation_h * channel->pitch - below : 4 * words;
    }
    channel->weights[WEIGHTS] = (uint32_t)(uintptr_t)weights, channel->weights[WEIGHTS_END] = (uint32_t)(uintptr_t)to;
    channel->weights[FOUR_ENTRY] = entry_of(codes[is_half][words - 2].four, all, codes[is_half][words - 2].four_bytes);
    channel->weights[TWO_ENTRY] = entry_of(codes[is_half][words - 2].two, all, codes[is_half][words - 2].two_bytes);
    channel->weights[PASSED] = (uint32_t)(8 << is_half), channel->weights[WORDS] = (uint32_t)words;
}

/* The pairs of weights behind the plane. */
static void expand_parts(pillion_dsp_channel *channel) {
    if (channel->weights[WEIGHTS] == 0) {
        begin_parts(channel);
    }
    channel->weights[BIAS] = channel->weights[BIAS_AGAIN] = (uint32_t)channel->bias;
    const int32_t is_half = channel->weights[PASSED] != 8, of_three = channel->weights[WORDS] == 3;
    int32_t *to = (int32_t *)(uintptr_t)channel->weights[WEIGHTS];
    const int32_t *const end = (const int32_t *)(uintptr_t)channel->weights[WEIGHTS_END];
    const int8_t *w = channel->unpacked;
    int32_t before = 0; /* a row ends with zeros */
    if (is_half) {
        for (; to != end; to += 3 + of_three, w += 4 + 2 * of_three) {
            to[0] = pair_of(w[0], w[1]), to[1] = pair_of(w[2], w[3]);
            if (of_three) {
                to[2] = pair_of(w[4], w[5]);
            }
        }
    } else if (of_three) {
        for (; to != end; to += 7, before = w[5], w += 6) {
            to[0] = pair_of(w[0], w[1]), to[1] = pair_of(before, w[0]), to[2] = pair_of(w[2], w[3]), to[3] = pair_of(w[1], w[2]);
            to[4] = pair_of(w[4], w[5]), to[5] = pair_of(w[3], w[4]);
        }
    } else {
        for (; to != end; to += 5, before = w[3], w += 4) {
            to[0] = pair_of(w[0], w[1]), to[1] = pair_of(before, w[0]), to[2] = pair_of(w[2], w[3]), to[3] = pair_of(w[1], w[2]);
        }
    }
    channel->unpacked = w;
}

static inline int32_t reach_of_parts(const pillion_depthwise_s8_dsp_params *p) {
    const int32_t words = words_of_part(p);
    return 2 * words * parts_of_row(p, words) - 2;
}
#endif

#endif

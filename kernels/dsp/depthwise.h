/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution one channel at a time: the channel is copied into a plane of 16-bit numbers with its padding, so
 * that two neighbours make a word and no row or column is special; therefore y may be x. */
#ifndef PILLION_DSP_DEPTHWISE_H
#define PILLION_DSP_DEPTHWISE_H

#include "pillion/dsp.h"

/* What a loop over the rows of a channel is given. From `round` on it copies this to its stack; the offsets there are
 * in its text. The weights make sums that are twice what they should be. */
typedef struct {
    const int16_t *x;
    int32_t pitch;  /* bytes from a row of the plane to the next */
    int8_t *y;
    int32_t stride; /* bytes from one output to the next */
    /*  0 */ int32_t round, multiplier, right, bias;
    /* 16 */ int32_t row_bytes;    /* of the plane, that the fours of a row of outputs move over */
    /* 20 */ int32_t x_skip;       /* from the last outputs of a row to the first of the next */
    /* 24 */ int32_t rows;
    /* 28 */ int32_t rest;         /* outputs of a row that are no whole four */
    /* 32 */ uint32_t rectified;   /* then the address of the requantization of fours */
    /* 36 */ int32_t row_end;      /* the loop's own */
    /* 40 */ uint32_t requantize;  /* the loop's own: the address in use */
    /* 44 */ uint32_t weights[21];
    const pillion_depthwise_s8_dsp_params *layer;
    const int8_t *unpacked; /* the channel's weights */
} pillion_dsp_channel;

/* Computes a channel whose weights are still to be expanded. */
typedef void pillion_dsp_channel_method(pillion_dsp_channel *channel);

void pillion_dsp_depthwise(const pillion_depthwise_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                           pillion_dsp_channel_method *method);

/* Twice two weights, in a word. */
static inline uint32_t pillion_dsp_twice(int8_t low, int8_t high) {
    return ((uint32_t)(2 * low) & 0xffffu) | (uint32_t)(2 * high) << 16;
}

/* Kernels of three columns: (w0 w1) (w1 w2) of each row. */
static inline void pillion_dsp_expand_3x3(pillion_dsp_channel *channel) {
    const int8_t *w = channel->unpacked;
    for (int32_t i = 0; i < 6; i += 2, w += 3) {
        channel->weights[i] = pillion_dsp_twice(w[0], w[1]), channel->weights[i + 1] = pillion_dsp_twice(w[1], w[2]);
    }
}

/* Kernels of five columns: (w0 w1) (w2 w3) (w1 w2) (w3 w4) of each row. */
static inline void pillion_dsp_expand_5x5(pillion_dsp_channel *channel) {
    const int8_t *w = channel->unpacked;
    for (int32_t i = 0; i < 20; i += 4, w += 5) {
        channel->weights[i] = pillion_dsp_twice(w[0], w[1]), channel->weights[i + 1] = pillion_dsp_twice(w[2], w[3]);
        channel->weights[i + 2] = pillion_dsp_twice(w[1], w[2]), channel->weights[i + 3] = pillion_dsp_twice(w[3], w[4]);
    }
}

/* Text that the loops have in common. ENTER starts a row of outputs and LEAVE ends it; between them four sums are made,
 * in r7 to r10, with r0 the plane, r11 the pitch, r12 y and lr the stride. `end` is the offset in the channel of what
 * lies behind the weights, `copy` copies all words between there and `right`. */
#define PILLION_DSP_COPY(registers) "ldmdb r0!, " registers "\n" "push " registers "\n"
#define PILLION_DSP_ENTER(end, copy)                               \
    "push {r4-r11, lr}\n"                                          \
    "add r0, r0, " end "\n" copy                                   \
    "ldr r2, [sp, #32]\n"                                          \
    "adr r1, 84f\n"                                                \
    "cmp r2, #0\n"                                                 \
    "it ne\n"                                                      \
    "adrne r1, 83f\n"                                              \
    "orr r1, r1, #1\n"                                             \
    "str r1, [sp, #32]\n"                                          \
    "str r1, [sp, #40]\n"                                          \
    "ldmdb r0, {r0, r11, r12, lr}\n"                               \
    "81:\n" /* a row of outputs */                                 \
    "ldr r1, [sp, #16]\n"                                          \
    "add r1, r0, r1\n"                                             \
    "str r1, [sp, #36]\n"                                          \
    "cmp r0, r1\n"                                                 \
    "beq.w 85f\n"                                                  \
    "82:\n" /* four outputs */

/* A sum to an output; r1 is clobbered, r2 round, r3 multiplier, r4 right. */
#define PILLION_DSP_REQUANTIZE(s)      \
    "add r1, r2, " s ", asr #31\n"     \
    "smmlar " s ", " s ", r3, r1\n"    \
    "asr " s ", " s ", r4\n"           \
    "ssat " s ", #8, " s "\n"
#define PILLION_DSP_REQUANTIZE_RECTIFIED(s) \
    "smmlar " s ", " s ", r3, r2\n"         \
    "asr " s ", " s ", r4\n"                \
    "ssat " s ", #8, " s "\n"
#define PILLION_DSP_FOUR(one) one("r7") one("r8") one("r9") one("r10")
#define PILLION_DSP_LAST(s) PILLION_DSP_REQUANTIZE(s) "strb " s ", [r12]\n" "add r12, r12, lr\n"

/* The sums r7 to r10 of four outputs, or of the fewer that end a row. `moved` is what these pass of the plane. */
#define PILLION_DSP_LEAVE(moved, bytes)                     \
    "ldmia.w sp, {r2-r4}\n"                                 \
    "ldr pc, [sp, #40]\n"                                   \
    ".balign 4\n"                                           \
    "83:\n" PILLION_DSP_FOUR(PILLION_DSP_REQUANTIZE_RECTIFIED) \
    "b 1f\n"                                                \
    ".balign 4\n"                                           \
    "84:\n" PILLION_DSP_FOUR(PILLION_DSP_REQUANTIZE)        \
    "1:\n"                                                  \
    "strb r7, [r12]\n"                                      \
    "strb r8, [r12, lr]\n"                                  \
    "strb r9, [r12, lr, lsl #1]\n"                          \
    "add r12, r12, lr, lsl #1\n"                            \
    "strb r10, [r12, lr]\n"                                 \
    "add r12, r12, lr, lsl #1\n"                            \
    "ldr r1, [sp, #36]\n"                                   \
    "adds r0, r0, " moved "\n"                              \
    "cmp r0, r1\n"                                          \
    "bne.w 82b\n"                                           \
    "85:\n"                                                 \
    "ldr r1, [sp, #28]\n"                                   \
    "cbz r1, 2f\n"                                          \
    "adr r1, 1f\n"                                          \
    "orr r1, r1, #1\n"                                      \
    "str r1, [sp, #40]\n"                                   \
    "b.w 82b\n"                                             \
    ".balign 4\n"                                           \
    "1:\n" /* one to three outputs */                       \
    "ldr r5, [sp, #28]\n" PILLION_DSP_LAST("r7")            \
    "cmp r5, #2\n"                                          \
    "blt 1f\n" PILLION_DSP_LAST("r8")                       \
    "beq 1f\n" PILLION_DSP_LAST("r9")                       \
    "1:\n"                                                  \
    "adds r0, r0, " moved "\n"                              \
    "ldr r1, [sp, #32]\n"                                   \
    "str r1, [sp, #40]\n"                                   \
    "2:\n"                                                  \
    "ldrd r1, r2, [sp, #20]\n"                              \
    "add r0, r0, r1\n"                                      \
    "subs r2, r2, #1\n"                                     \
    "str r2, [sp, #24]\n"                                   \
    "bne.w 81b\n"                                          \
    "add sp, sp, " bytes "\n"                               \
    "pop {r4-r11, pc}\n"

#endif

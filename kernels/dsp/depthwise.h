/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution one channel at a time: the channel is copied into a plane of 16-bit numbers with its padding, so
 * that two neighbours make a word and no row or column is special; therefore y may be x. A round of a loop makes four
 * outputs of a row: their sums, then the results, by the way that `sums` chooses; after the last round `end_of_row`
 * makes the rest.
 * Who includes this defines PILLION_DSP_RESULTS_16 if results have 16 bits: then a result is the upper word of a sum times `multiplier`.
 * Registers: r0 plane, r11 from row to row of it, r12 y, lr from output to output; r1-r4 inputs, r5 r6 weights, r7-r10
 * sums. Of the results: r2 round, r3 multiplier, r4 shift. On the stack: the channel from `round` on. */
#ifndef PILLION_DSP_DEPTHWISE_H
#define PILLION_DSP_DEPTHWISE_H

#include "dot16.h"

/* What a loop over the rows of a channel is given. From `round` on it copies this to its stack; the offsets there are
 * in its text. For results of 8 bits, the weights make sums that are twice what they should be. */
typedef struct {
    const int16_t *x;
    int32_t pitch;  /* bytes from a row of the plane to the next */
    void *y;
    int32_t stride; /* bytes from one output of a row to the next */
    /*  0 */ int32_t round, multiplier, right;
    /* 12 */ uint32_t sums;          /* address in the loop: what to do with four sums now */
    /* 16 */ int32_t row_bytes;      /* of the plane, that the fours of a row of outputs move over */
    /* 20 */ int32_t x_skip, y_skip; /* from behind the fours to the next row */
    /* 28 */ int32_t rows;
    /* 32 */ int32_t row_end;        /* the loop's own */
    /* 36 */ int32_t bias;
    /* 40 */ uint32_t fours;         /* `sums` while there are fours */
    /* 44 */ uint32_t end_of_row;    /* address: what to do after the fours */
    /* 48 */ uint32_t rest;          /* address: ... with the one, two or three sums that are left then */
    /* 52 */ uint32_t weights[21];
    const pillion_depthwise_s8_dsp_params *layer;
    const int8_t *unpacked; /* the channel's weights */
    int32_t y_step;         /* bytes from a row of outputs to the next */
} pillion_dsp_channel;

/* The loop over a channel, and the places in it that the addresses are chosen from. */
typedef struct {
    void (*expand)(pillion_dsp_channel *channel); /* its weights, and moves `unpacked` to those of the next one */
    void (*rows)(const pillion_dsp_channel *channel);
    const uint8_t *fours, *fours_rectified, *next_row, *pair, *one, *two, *three_more, *three;
    int32_t reach; /* columns from the first to the last one of a window */
} pillion_dsp_method;

void pillion_dsp_depthwise(const pillion_depthwise_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                           const pillion_dsp_method *method);
void pillion_dsp_depthwise_16(const pillion_depthwise_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch,
                              const pillion_dsp_method *method);

#if PILLION_HAS_DSP
PILLION_FIELDS_AT(pillion_dsp_channel, 0, x, pitch, y, stride);
#define PILLION_DSP_ON_STACK(field, bytes) PILLION_AT(pillion_dsp_channel, field, 16 + (bytes))
PILLION_DSP_ON_STACK(round, 0);
PILLION_DSP_ON_STACK(multiplier, 4);
PILLION_DSP_ON_STACK(right, 8);
PILLION_DSP_ON_STACK(sums, 12);
PILLION_DSP_ON_STACK(row_bytes, 16);
PILLION_DSP_ON_STACK(x_skip, 20);
PILLION_DSP_ON_STACK(y_skip, 24);
PILLION_DSP_ON_STACK(rows, 28);
PILLION_DSP_ON_STACK(row_end, 32);
PILLION_DSP_ON_STACK(bias, 36);
PILLION_DSP_ON_STACK(fours, 40);
PILLION_DSP_ON_STACK(end_of_row, 44);
PILLION_DSP_ON_STACK(rest, 48);
PILLION_DSP_ON_STACK(weights, 52);

/* Pairs of weights as they are multiplied. */
static inline uint32_t pillion_dsp_expanded(uint32_t pair) {
#ifndef PILLION_DSP_RESULTS_16
    __asm("sadd16 %0, %0, %0" : "+r"(pair));
#endif
    return pair;
}

/* Two words of weights w0 w1 w2 w3: (w0 w1) and (w2 w3). */
static inline void pillion_dsp_expand_four(const int8_t *w, uint32_t *pairs) {
    uint32_t four, even, odd;
    memcpy(&four, w, 4);
    __asm("sxtb16 %0, %1" : "=r"(even) : "r"(four));
    __asm("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
    even = pillion_dsp_expanded(even), odd = pillion_dsp_expanded(odd);
    __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(pairs[0]) : "r"(even), "r"(odd));
    __asm("pkhtb %0, %1, %2, asr #16" : "=r"(pairs[1]) : "r"(odd), "r"(even));
}

/* Kernels of three columns: (w0 w1) (w1 w2) of each row. */
static inline void pillion_dsp_expand_3x3(pillion_dsp_channel *channel) {
    const int8_t *w = channel->unpacked;
    for (int32_t i = 0; i < 6; i += 2, w += 3) {
        uint32_t four, even, odd;
        memcpy(&four, w, 4);
        __asm("sxtb16 %0, %1" : "=r"(even) : "r"(four));
        __asm("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
        even = pillion_dsp_expanded(even), odd = pillion_dsp_expanded(odd);
        __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(channel->weights[i]) : "r"(even), "r"(odd));
        __asm("pkhtb %0, %1, %2" : "=r"(channel->weights[i + 1]) : "r"(even), "r"(odd));
    }
    channel->unpacked = w;
}

/* Kernels of five columns: (w0 w1) (w2 w3) (w1 w2) (w3 w4) of each row. */
static inline void pillion_dsp_expand_5x5(pillion_dsp_channel *channel) {
    const int8_t *w = channel->unpacked;
    for (int32_t i = 0; i < 20; i += 4, w += 5) {
        pillion_dsp_expand_four(w, channel->weights + i);
        pillion_dsp_expand_four(w + 1, channel->weights + i + 2);
    }
    channel->unpacked = w;
}

#endif

/* The text of a loop called `name` over the rows of a channel. `copy` copies its frame, of which `words` are taken and
 * which ends at offset `end` of the channel; `four` makes four sums in r7 to r10, with r0 the plane, r11 the pitch, r12 y
 * and lr the stride, and `two` the first two of them; `moved` are the bytes of the plane that four outputs pass. */
#define PILLION_DSP_COPY(registers) "ldmdb r0!, " registers "\n" "push " registers "\n"
#define PILLION_DSP_PLACE(name, place) ".global pillion_dsp_" name "_" place "\n" "pillion_dsp_" name "_" place ":\n"
#define PILLION_DSP_ROWS(name, end, copy, bytes, four, two, moved) \
    "push {r4-r11, lr}\n"                                          \
    "add r0, r0, " end "\n" copy                                   \
    "ldmdb r0, {r0, r11, r12, lr}\n"                               \
    "1:\n" /* a row of outputs */                                  \
    "ldr r1, [sp, #16]\n"                                          \
    "add r1, r0, r1\n"                                             \
    "str r1, [sp, #32]\n"                                          \
    "cmp r0, r1\n"                                                 \
    "beq.w 4f\n"                                                   \
    "2:\n" four                                                    \
    "ldmia.w sp, {r2-r4, pc}\n" /* to `sums` */                    \
    PILLION_DSP_PLACE(name, "fours")                               \
    PILLION_DSP_FOUR(PILLION_DSP_REQUANTIZE)                       \
    "b 3f\n"                                                       \
    PILLION_DSP_PLACE(name, "fours_rectified")                     \
    PILLION_DSP_FOUR(PILLION_DSP_REQUANTIZE_RECTIFIED)             \
    "3:\n"                                                         \
    PILLION_DSP_STORE " r7, [r12]\n"                                             \
    PILLION_DSP_STORE " r8, [r12, lr]\n"                                         \
    PILLION_DSP_STORE " r9, [r12, lr, lsl #1]\n"                                 \
    "add r12, r12, lr, lsl #1\n"                                   \
    PILLION_DSP_STORE " r10, [r12, lr]\n"                                        \
    "add r12, r12, lr, lsl #1\n"                                   \
    "ldr r1, [sp, #32]\n"                                          \
    "adds r0, r0, " moved "\n"                                     \
    "cmp r0, r1\n"                                                 \
    "bne.w 2b\n"                                                   \
    "4:\n"                                                         \
    "ldr pc, [sp, #44]\n"                                          \
    PILLION_DSP_PLACE(name, "three_more")                          \
    "ldr r1, [sp, #48]\n"                                          \
    "str r1, [sp, #12]\n"                                          \
    "b.w 2b\n"                                                     \
    PILLION_DSP_PLACE(name, "pair") two                            \
    "ldmia.w sp, {r2-r4}\n"                                        \
    "ldr pc, [sp, #48]\n"                                          \
    PILLION_DSP_PLACE(name, "three")                               \
    "ldr r1, [sp, #40]\n"                                          \
    "str r1, [sp, #12]\n" PILLION_DSP_REQUANTIZE_REST("r9")             \
    PILLION_DSP_STORE " r9, [r12, lr, lsl #1]\n"                                 \
    PILLION_DSP_PLACE(name, "two") PILLION_DSP_REQUANTIZE_REST("r8")    \
    PILLION_DSP_STORE " r8, [r12, lr]\n"                                         \
    PILLION_DSP_PLACE(name, "one") PILLION_DSP_REQUANTIZE_REST("r7")    \
    PILLION_DSP_STORE " r7, [r12]\n"                                             \
    PILLION_DSP_PLACE(name, "next_row")                            \
    "ldrd r1, r2, [sp, #20]\n"                                     \
    "ldr r3, [sp, #28]\n"                                          \
    "add r0, r0, r1\n"                                             \
    "add r12, r12, r2\n"                                           \
    "subs r3, r3, #1\n"                                            \
    "str r3, [sp, #28]\n"                                          \
    "bne.w 1b\n"                                                   \
    "add sp, sp, " bytes "\n"                                      \
    "pop {r4-r11, pc}\n"

/* A sum to an output; r1 is clobbered, r2 round, r3 multiplier, r4 right. */
#ifdef PILLION_DSP_RESULTS_16
#define PILLION_DSP_STORE "strh"
#define PILLION_DSP_REQUANTIZE(s) ROUND_16(SIGNED, s, "r3")
#define PILLION_DSP_REQUANTIZE_RECTIFIED(s) ROUND_16(RECTIFIED, s, "r3")
/* Round has all bits where results are rectified, else none. */
#define PILLION_DSP_REQUANTIZE_REST(s)                       \
    PILLION_DSP_REQUANTIZE(s)                                \
    "and r1, r2, " s ", asr #31\n"                           \
    "bic " s ", " s ", r1\n"
#else
#define PILLION_DSP_STORE "strb"
#define PILLION_DSP_REQUANTIZE(s)      \
    "add r1, r2, " s ", asr #31\n"     \
    "smmlar " s ", " s ", r3, r1\n"    \
    "asr " s ", " s ", r4\n"           \
    "ssat " s ", #8, " s "\n"
#define PILLION_DSP_REQUANTIZE_RECTIFIED(s) \
    "smmlar " s ", " s ", r3, r2\n"         \
    "asr " s ", " s ", r4\n"                \
    "ssat " s ", #8, " s "\n"
#define PILLION_DSP_REQUANTIZE_REST PILLION_DSP_REQUANTIZE
#endif
#define PILLION_DSP_FOUR(one) one("r7") one("r8") one("r9") one("r10")

/* The bias goes where the sum is that is written last. */
#define PILLION_DSP_BIAS_OF_FOUR "ldr r10, [sp, #36]\n"
#define PILLION_DSP_BIAS_OF_TWO "ldr r8, [sp, #36]\n"

/* The loop of a kernel of 3x3, from FOUR and TWO, which add a row of the kernel to the sums: the row of the plane, the offset
 * of its weights, and where the sums come from. r1 goes through the rows of a window. */
#define PILLION_DSP_ROWS_3X3(name, moved)                                                                        \
    PILLION_DSP_ROWS(name, "#96", PILLION_DSP_COPY("{r1-r10}") PILLION_DSP_COPY("{r1-r10}"), "#80",              \
                     PILLION_DSP_BIAS_OF_FOUR FOUR("r0", "#52", "r10", "r10", "r10", "r10")                      \
                     "add r1, r0, r11\n" FOUR("r1", "#60", "r7", "r8", "r9", "r10")                              \
                     "add r1, r1, r11\n" FOUR("r1", "#68", "r7", "r8", "r9", "r10"),                             \
                     PILLION_DSP_BIAS_OF_TWO TWO("r0", "#52", "r8", "r8")                                        \
                     "add r1, r0, r11\n" TWO("r1", "#60", "r7", "r8")                                            \
                     "add r1, r1, r11\n" TWO("r1", "#68", "r7", "r8"), moved)

/* The loop of a kernel of 5x5, from FOUR and TWO, which take their inputs at r0: that goes through the rows of a window, whose
 * weights lie at these offsets, and back to the first. */
#define PILLION_DSP_FOUR_MORE_ROWS(sums) \
    ".irp at, 68, 84, 100, 116\n"        \
    "add r0, r0, r11\n" sums             \
    ".endr\n"                            \
    "sub r0, r0, r11, lsl #2\n"
#define PILLION_DSP_ROWS_5X5(name, moved)                                                                        \
    PILLION_DSP_ROWS(name, "#148",                                                                               \
                     PILLION_DSP_COPY("{r1-r11}") PILLION_DSP_COPY("{r1-r11}") PILLION_DSP_COPY("{r1-r11}"), "#132", \
                     PILLION_DSP_BIAS_OF_FOUR FOUR("52", "r10", "r10", "r10", "r10")                             \
                     PILLION_DSP_FOUR_MORE_ROWS(FOUR("\\at", "r7", "r8", "r9", "r10")),                          \
                     PILLION_DSP_BIAS_OF_TWO TWO("52", "r8", "r8")                                               \
                     PILLION_DSP_FOUR_MORE_ROWS(TWO("\\at", "r7", "r8")), moved)

/* A loop of a kernel and its places, for C. */
#define PILLION_DSP_METHOD(name, expand, rows, reach)                                                                  \
    extern const uint8_t pillion_dsp_##name##_fours[], pillion_dsp_##name##_fours_rectified[],                         \
        pillion_dsp_##name##_next_row[], pillion_dsp_##name##_pair[], pillion_dsp_##name##_one[],                      \
        pillion_dsp_##name##_two[], pillion_dsp_##name##_three_more[], pillion_dsp_##name##_three[];                   \
    static const pillion_dsp_method method_##name = {                                                                  \
        expand, rows, pillion_dsp_##name##_fours, pillion_dsp_##name##_fours_rectified, pillion_dsp_##name##_next_row, \
        pillion_dsp_##name##_pair, pillion_dsp_##name##_one, pillion_dsp_##name##_two,                                 \
        pillion_dsp_##name##_three_more, pillion_dsp_##name##_three, reach}

#endif

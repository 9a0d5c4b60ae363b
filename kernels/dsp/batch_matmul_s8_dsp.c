/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices, for each batch: the vectors of one operand are held in scratch, those of the other move along them.
 *
 * Both are widened to 16 bits: of every four elements a word with the first and the third, then one with the others. Held
 * elements are less their zero point and doubled, since requantization starts from twice a sum; the zero point of the others
 * is in the number that a sum begins with. Held vectors lie in groups of four: these numbers, then four elements of each in
 * turn: 11 instructions for 16 products.
 * A round is eight elements of four held vectors, and two rounds are one turn of the loop, which is entered in its middle
 * where the number of rounds is odd; after the last one four results are stored.
 * Registers: r0 moving vector, r12 held ones, lr rounds left, r11 the state from y on; r1 r2 elements, r3-r6 held ones, r7-r10
 * sums. Of the results: r0 y, r1 its step, r3 multiplier, r4 round, r5 shift, r6 end of the held vectors. */
#include "pillion/assembly.h"
#include "dot.h"
#include "widen.h"

#include <string.h>

#if PILLION_HAS_DSP

/* Groups of held vectors and one vector that moves. */
typedef struct {
    const int32_t *moving;  /*  0: r0 */
    int32_t rounds;         /*  4: lr, of eight elements */
    const int32_t *held;    /*  8: r12 */
    int8_t *y;              /* 12 */
    int32_t y_step;         /* 16: from result to result */
    int32_t multiplier, round, right; /* 20 */
    const int32_t *end;     /* 32: of the held vectors */
} moving_vector;
PILLION_FIELDS_AT(moving_vector, 0, moving, rounds, held, y, y_step, multiplier, round, right, end);

#define FOUR                     \
    "ldrd r1, r2, [r0], #8\n"    \
    "ldmia.w r12!, {r3-r6}\n"    \
    "smlad r7, r1, r3, r7\n"     \
    "smlad r8, r1, r5, r8\n"     \
    "smlad r7, r2, r4, r7\n"     \
    "smlad r8, r2, r6, r8\n"     \
    "ldmia.w r12!, {r3-r6}\n"    \
    "smlad r9, r1, r3, r9\n"     \
    "smlad r10, r1, r5, r10\n"   \
    "smlad r9, r2, r4, r9\n"     \
    "smlad r10, r2, r6, r10\n"

/* From twice a sum. */
#define RESULT(s, store)              \
    "add r2, r4, " s ", asr #31\n"    \
    "smmlar " s ", " s ", r3, r2\n"   \
    "asr " s ", " s ", r5\n"          \
    "ssat " s ", #8, " s "\n" store(s)

#define STORE_NEXT(s) "strb " s ", [r0], #1\n"
#define STORE(s)                 \
    "strb " s ", [r0]\n"         \
    "add r0, r0, r1\n"

#define RESULTS(name, store)                                                                                 \
    PILLION_NAKED static void name(PILLION_UNUSED moving_vector *v) {                                        \
        __asm volatile("push {r4-r11, lr}\n"                                                                 \
                       "add r11, r0, #12\n"                                                                  \
                       "ldr r12, [r0, #8]\n"                                                                 \
                       "1:\n"                                                                                \
                       "ldrd r0, lr, [r11, #-12]\n"                                                          \
                       "ldmia.w r12!, {r7-r10}\n"                                                            \
                       "tst lr, #1\n"                                                                        \
                       "bne 3f\n"                                                                            \
                       "2:\n" FOUR FOUR                                                                      \
                       "3:\n" FOUR FOUR                                                                      \
                       "subs lr, lr, #2\n"                                                                   \
                       "bgt 2b\n"                                                                            \
                       "ldmia r11, {r0, r1, r3-r6}\n" RESULT("r7", store) RESULT("r8", store)                \
                           RESULT("r9", store) RESULT("r10", store)                                          \
                       "str r0, [r11]\n"                                                                     \
                       "cmp r12, r6\n"                                                                       \
                       "bne 1b\n"                                                                            \
                       "pop {r4-r11, pc}\n");                                                                \
    }

RESULTS(results, STORE)
RESULTS(neighbouring_results, STORE_NEXT)

/* The four elements of a group, of which `count` are there; the others are `nothing`. */
static inline void four_of(const int8_t *from, int32_t step, int32_t count, int32_t nothing, int32_t *even, int32_t *odd) {
    const int32_t x0 = from[0], x1 = count > 1 ? from[step] : nothing, x2 = count > 2 ? from[2 * step] : nothing;
    const int32_t x3 = count > 3 ? from[3 * step] : nothing;
    __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(*even) : "r"(x0), "r"(x2));
    __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(*odd) : "r"(x1), "r"(x3));
}

/* Twice the difference to the zero point. */
static inline int32_t difference(int32_t two, uint32_t zps) {
    __asm("ssub16 %0, %0, %1" : "+r"(two) : "r"(zps));
    __asm("sadd16 %0, %0, %0" : "+r"(two));
    return two;
}

static inline int32_t add_both(int32_t sum, int32_t two) {
    __asm("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(two), "r"(0x00010001));
    return sum;
}

/* Four elements of a held vector; returns their sum and another. */
static inline int32_t hold_four(const int8_t *from, int32_t step, int32_t count, int32_t zp, int32_t sum, int32_t *to) {
    const uint32_t zps = (uint32_t)(uint16_t)zp * 0x00010001u;
    int32_t even, odd;
    four_of(from, step, count, zp, &even, &odd);
    even = difference(even, zps), odd = difference(odd, zps);
    to[0] = even, to[1] = odd;
    return add_both(add_both(sum, even), odd);
}

/* A held vector, whose elements lie `step` bytes apart, to every other fourth pair of words; returns the sum. */
static int32_t hold_vector(const int8_t *from, int32_t step, int32_t count, int32_t zp, int32_t *to) {
    int32_t sum = 0;
    for (; count >= 4; count -= 4, from += 4 * step, to += 8) {
        sum = hold_four(from, step, 4, zp, sum, to);
    }
    return count > 0 ? hold_four(from, step, count, zp, sum, to) : sum;
}

/* All held vectors of a batch, in groups of `group_words`. */
static void hold(const pillion_batch_matmul_s8_dsp_params *p, const int8_t *held, int32_t group_words, int32_t *groups) {
    for (int32_t i = 0; i < p->held; i++, held += p->held_step) {
        int32_t *const group = groups + (i >> 2) * group_words;
        const int32_t sum = hold_vector(held, p->held_element_step, p->depth, p->held_zp, group + 4 + 2 * (i & 3));
        group[i & 3] = -p->moving_zp * sum;
    }
}

/* A vector whose elements lie apart. */
static void widen_apart(const int8_t *from, int32_t step, int32_t count, int32_t *to) {
    for (; count >= 4; count -= 4, from += 4 * step, to += 2) {
        four_of(from, step, 4, 0, to, to + 1);
    }
    if (count > 0) {
        four_of(from, step, count, 0, to, to + 1);
    }
}

/* The last group, where it has room for more vectors than there are. */
static void rest_of_results(const pillion_batch_matmul_s8_dsp_params *p, moving_vector v, int8_t *y) {
    int8_t last[4];
    v.held = v.end, v.end += 4 + 16 * v.rounds, v.y = last;
    neighbouring_results(&v);
    for (int32_t i = 0; i < (p->held & 3); i++) {
        y[((p->held & ~3) + i) * p->y_held_step] = last[i];
    }
}

/* All moving vectors of a batch along the held ones. What those answer that there are not goes where the next results come
 * later, or to a buffer. */
static void multiply(const pillion_batch_matmul_s8_dsp_params *p, const int8_t *moving, int8_t *y, int32_t group_words,
                     int32_t *vector, moving_vector *v) {
    const int32_t side_by_side = p->y_held_step == 1 && p->held > 1, rest = p->held & 3, whole = p->held >> 2;
    void (*const run)(moving_vector *) = side_by_side ? neighbouring_results : results;
    const int32_t *const end = v->held + whole * group_words;
    v->end = side_by_side && rest > 0 ? end + group_words : end;
    for (int32_t left = p->moving; left > 0; left--, moving += p->moving_step, y += p->y_moving_step) {
        if (p->moving_element_step == 1) {
            pillion_dsp_widen_eights(moving, v->rounds, vector); /* what is read behind it meets zeros */
        } else {
            widen_apart(moving, p->moving_element_step, p->depth, vector);
        }
        v->end = left == 1 ? end : v->end;
        v->y = y;
        if (v->end != v->held) {
            run(v);
        }
        if (rest > 0 && v->end == end) {
            rest_of_results(p, *v, y);
        }
    }
}

void pillion_batch_matmul_s8_dsp(const pillion_batch_matmul_s8_dsp_params *p, const int8_t *held, const int8_t *moving,
                                 int8_t *y, void *scratch) {
    const int32_t rounds = (p->depth + 7) >> 3, group_words = 4 + 16 * rounds, words = ((p->held + 3) >> 2) * group_words;
    int32_t *const groups = scratch, *const vector = groups + words;
    moving_vector v = {vector, rounds, groups, y, p->y_held_step, p->multiplier, p->round, p->right, groups};
    memset(scratch, 0, (size_t)(4 * (words + 4 * rounds)));
    for (int32_t n = 0; n < p->batch; n++) {
        hold(p, held, group_words, groups);
        multiply(p, moving, y, group_words, vector, &v);
        held += p->held * p->depth;
        moving += p->moving * p->depth;
        y += p->held * p->moving;
    }
    const int32_t count = p->batch * p->held * p->moving;
    pillion_dsp_clamp(y - count, count, p->low, p->high);
}
#endif

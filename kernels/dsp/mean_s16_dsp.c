/* SPDX-License-Identifier: Apache-2.0
 * Means of 16 bits over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], four results at a time, the last four
 * overlapping those before, or one of elements side by side, of which SMLAD adds two. Requantization as in README.md. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP
typedef pillion_mean_s16_dsp_params params;

static inline int16_t rounded(const params *p, int32_t sum) {
    sum -= p->reduced * p->in_zp;
    int32_t y = (1 << (p->right - 1)) + (sum >> 31);
    __asm("smmlar %0, %1, %2, %0" : "+r"(y) : "r"(2 * sum), "r"(p->multiplier));
    y = (y >> p->right) + p->out_zp;
    __asm("ssat %0, #16, %0" : "+r"(y));
    return (int16_t)y;
}

#define ROW                                  \
    "ldr %[first], [%[x]]\n\t"               \
    "ldr %[second], [%[x], #4]\n\t"          \
    "add %[x], %[x], %[step]\n\t"            \
    "sxtah %[s0], %[s0], %[first]\n\t"       \
    "add %[s1], %[s1], %[first], asr #16\n\t" \
    "sxtah %[s2], %[s2], %[second]\n\t"      \
    "add %[s3], %[s3], %[second], asr #16\n\t"
#define ADD_ROWS(text)                                                                                           \
    __asm volatile(text : [x] "+&r"(x), [s0] "+&r"(s0), [s1] "+&r"(s1), [s2] "+&r"(s2), [s3] "+&r"(s3),          \
                   [first] "=&r"(first), [second] "=&r"(second)                                                 \
                   : [step] "r"(2 * p->inner)                                                                    \
                   : "memory")

static void four_columns(const params *p, const int16_t *x, int16_t *y) {
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, rows = p->reduced, first, second;
    for (; rows >= 4; rows -= 4) {
        ADD_ROWS(ROW ROW ROW ROW);
    }
    for (; rows > 0; rows--) {
        ADD_ROWS(ROW);
    }
    y[0] = rounded(p, s0);
    y[1] = rounded(p, s1);
    y[2] = rounded(p, s2);
    y[3] = rounded(p, s3);
}

#define PAIR                      \
    "ldr %[pair], [%[x]], #4\n\t" \
    "smlad %[sum], %[pair], %[ones], %[sum]\n\t"
#define ADD_PAIRS(text)                                                                        \
    __asm volatile(text : [x] "+&r"(x), [sum] "+&r"(sum), [pair] "=&r"(pair) : [ones] "r"(0x00010001) : "memory")

static int16_t mean_of_row(const params *p, const int16_t *x) {
    int32_t sum = 0, left = p->reduced, pair;
    for (; left >= 16; left -= 16) {
        ADD_PAIRS(PAIR PAIR PAIR PAIR PAIR PAIR PAIR PAIR);
    }
    for (; left >= 2; left -= 2) {
        ADD_PAIRS(PAIR);
    }
    return rounded(p, left ? sum + *x : sum);
}

void pillion_mean_s16_dsp(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t inner = p->inner;
    (void)scratch;
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * inner, y += inner) {
        if (inner == 1) {
            *y = mean_of_row(p, x);
            continue;
        }
        for (int32_t i = 0; i < inner; i += 4) {
            const int32_t first = i + 4 > inner ? inner - 4 : i;
            four_columns(p, x + first, y + first);
        }
    }
}
#endif

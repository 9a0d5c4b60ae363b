/* SPDX-License-Identifier: Apache-2.0
 * Norms: sums and squares of four bytes take six instructions, an element eight (normalize.h). Where a row has several groups, all four numbers of each channel lie in scratch, and
 * groups of few channels are added up channel by channel. y may be x. */
#include "dot.h"

#if PILLION_HAS_DSP
#define LOAD "ldrsb %[t], [%[x]], #1\n\t"
#define STORE "ssat %[t], #8, %[t]\n\tstrb %[t], [%[y]], #1\n\t"
typedef int8_t element, result;
#include "normalize.h"

typedef pillion_normalize_s8_dsp_params params;

/* Adds up to 2^16 elements side by side to their sum, and gives the sum of their squares. */
static uint32_t add_sums(const int8_t *x, int32_t count, int32_t *sum) {
    int32_t s = *sum, q = 0, word, even;
    const int32_t ones = 0x00010001;
    for (; count >= 4; count -= 4) {
        __asm volatile(
            "ldr %3, [%0], #4\n\t"
            "sxtb16 %4, %3\n\t"
            "sxtb16 %3, %3, ror #8\n\t"
            "smlad %1, %4, %5, %1\n\t"
            "smlad %2, %4, %4, %2\n\t"
            "smlad %1, %3, %5, %1\n\t"
            "smlad %2, %3, %3, %2\n\t"
            : "+&r"(x), "+&r"(s), "+&r"(q), "=&r"(word), "=&r"(even)
            : "r"(ones)
            : "memory");
    }
    for (; count > 0; count--, x++) {
        s += *x;
        q += *x * *x;
    }
    *sum = s;
    return (uint32_t)q;
}

/* The same of elements that lie apart. */
static uint32_t add_column(const int8_t *x, int32_t count, int32_t step, int32_t *sum) {
    int32_t s = *sum, q = 0, t;
#define NEXT "ldrsb %3, [%0]\n\tadd %0, %0, %4\n\tadd %1, %1, %3\n\tmla %2, %3, %3, %2\n\t"
    for (; count >= 4; count -= 4) {
        __asm volatile(NEXT NEXT NEXT NEXT : "+&r"(x), "+&r"(s), "+&r"(q), "=&r"(t) : "r"(step) : "memory");
    }
    for (; count > 0; count--) {
        __asm volatile(NEXT : "+&r"(x), "+&r"(s), "+&r"(q), "=&r"(t) : "r"(step) : "memory");
    }
    *sum = s;
    return (uint32_t)q;
}

enum { FEW = 12 }; /* channels of a group that are added up one by one */

/* Of `runs` times so many elements, `step` apart. */
static pillion_standard standard_of(const params *p, const int8_t *x, int32_t runs, int32_t run, int32_t step) {
    int32_t sum = 0;
    int64_t squares = 0;
    for (int32_t n = 0; n < runs; n++, x += step) {
        for (int32_t first = 0; first < run; first += PILLION_MOST_SQUARES) {
            const int32_t left = run - first;
            squares += add_sums(x + first, left < PILLION_MOST_SQUARES ? left : PILLION_MOST_SQUARES, &sum);
        }
    }
    return pillion_standard_of(p, sum, squares);
}

static pillion_standard standard_of_few(const params *p, const int8_t *x, int32_t step) {
    int32_t sum = 0;
    int64_t squares = 0;
    for (int32_t i = 0; i < p->inner; i++) {
        for (int32_t first = 0; first < p->positions; first += PILLION_MOST_SQUARES) {
            const int32_t left = p->positions - first;
            const int32_t count = left < PILLION_MOST_SQUARES ? left : PILLION_MOST_SQUARES;
            squares += add_column(x + i + first * step, count, step, &sum);
        }
    }
    return pillion_standard_of(p, sum, squares);
}

/* --- groups */

typedef struct {
    pillion_standard by;
    int32_t factor, offset;
} channel;

static void find_channels(const params *p, const int8_t *x, channel *found) {
    const int32_t step = p->groups * p->inner;
    for (int32_t first = 0; first < step; first += p->inner) {
        const pillion_standard by = p->inner < FEW ? standard_of_few(p, x + first, step)
                                                   : standard_of(p, x + first, p->positions, p->inner, step);
        for (int32_t i = first; i < first + p->inner; i++) {
            const int32_t at = p->each_channel * i;
            const channel one = {by, p->factors[at], p->offsets[at]};
            found[i] = one;
        }
    }
}

/* All channels of one position. */
static void position(const channel *c, int32_t places, int32_t count, const int8_t *x, int8_t *y) {
    int32_t t;
#define CHANNEL                               \
    "ldrsb %[t], [%[x]], #1\n\t"              \
    "ldmia %[c]!, {r4, r5, r6, r8}\n\t"       \
    "mla %[t], %[t], r4, r5\n\t"              \
    "smmlar %[t], %[t], r6, r8\n\t"           \
    "asr %[t], %[t], %[places]\n\t"           \
    "ssat %[t], #8, %[t]\n\t"                 \
    "strb %[t], [%[y]], #1\n\t"
#define CHANNELS(code)                                                                     \
    __asm volatile(code                                                                    \
                   : [x] "+&r"(x), [y] "+&r"(y), [c] "+&r"(c), [t] "=&r"(t)                   \
                   : [places] "r"(places)                                                  \
                   : "r4", "r5", "r6", "r8", "memory")
    for (; count >= 4; count -= 4) {
        CHANNELS(CHANNEL CHANNEL CHANNEL CHANNEL);
    }
    for (; count > 0; count--) {
        CHANNELS(CHANNEL);
    }
}

static void many_groups(const params *p, const int8_t *x, int8_t *y, channel *channels) {
    const int32_t step = p->groups * p->inner;
    find_channels(p, x, channels);
    for (int32_t n = 0; n < p->positions; n++, x += step, y += step) {
        position(channels, p->places, step, x, y);
    }
}

void pillion_normalize_s8_dsp(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t step = p->positions * p->groups * p->inner;
    for (int32_t row = 0; row < p->rows; row++, x += step, y += step) {
        if (p->groups == 1) {
            one_group(p, standard_of(p, x, 1, p->elements, 0), x, y);
        } else {
            many_groups(p, x, y, scratch);
        }
        if (p->low > -128 || p->high < 127) {
            pillion_dsp_clamp(y, step, p->low, p->high);
        }
    }
}
#endif

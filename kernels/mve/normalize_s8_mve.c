/* SPDX-License-Identifier: Apache-2.0
 * Norms, four elements at a time: a multiplication and an addition modulo 2^32 normalize an element, VRMULH and an addition
 * give it the scale and the bias of its channel. In a row of one group, sums are over adjacent elements. With several groups, scratch holds
 * sums, and then factors and starts, for each channel; it repeats them if channels are few, and several positions are computed as one. y may
 * be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#define LOAD "vldrb.s32 q0, [%[x]], #4\n"
#define STORE "vstrb.32 q0, [%[y]], #4\n"
typedef int8_t element, result;
#include "normalize.h"

#include <string.h>

typedef pillion_normalize_s8_mve_params params;

enum { FEW_CHANNELS = 48 }; /* the compiler (normalize.py) knows this number, too */

/* Up to 2^16 elements side by side. */
static void add_sums(const int8_t *x, int32_t count, int32_t *sum, uint32_t *squares) {
    int32_t s = *sum;
    uint32_t q = 0;
    __asm__ volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.u8 q0, [%[x]], #16\n"
        "vaddva.s8 %[s], q0\n"
        "vmladava.s8 %[q], q0, q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [s] "+&Te"(s), [q] "+&Te"(q)
        : [count] "r"(count)
        : "lr", "q0", "cc", "memory");
    *sum = s;
    *squares = q;
}

static pillion_standard standard_of(const params *p, const int8_t *x) {
    int32_t sum = 0;
    int64_t squares = 0;
    for (int32_t left = p->elements; left > 0; left -= PILLION_MOST_SQUARES, x += PILLION_MOST_SQUARES) {
        uint32_t some;
        add_sums(x, left < PILLION_MOST_SQUARES ? left : PILLION_MOST_SQUARES, &sum, &some);
        squares += some;
    }
    return pillion_standard_of(p, sum, squares);
}

/* --- groups */

/* Sums and sums of squares of up to four neighbouring channels over all positions. */
static void channel_sums(const params *p, const int8_t *x, int32_t lanes, int32_t *sums, int32_t *squares) {
    __asm__ volatile(
        "vctp.32 %[lanes]\n"
        "vmov.i32 q1, #0\n"
        "vmov.i32 q2, #0\n"
        "dls lr, %[positions]\n"
        "1: vpst\n"
        "vldrbt.s32 q0, [%[x]]\n"
        "add %[x], %[x], %[step]\n"
        "vadd.i32 q1, q1, q0\n"
        "vmul.i32 q3, q0, q0\n"
        "vadd.i32 q2, q2, q3\n"
        "le lr, 1b\n"
        "vpstt\n"
        "vstrwt.32 q1, [%[sums]]\n"
        "vstrwt.32 q2, [%[squares]]\n"
        : [x] "+&l"(x)
        : [lanes] "r"(lanes), [positions] "r"(p->positions), [step] "r"(p->groups * p->inner), [sums] "r"(sums),
          [squares] "r"(squares)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* Factors and starts of the channels in the place of their sums and squares. */
static void standards(const params *p, int32_t *sums, int32_t *squares) {
    for (int32_t group = 0; group < p->groups; group++, sums += p->inner, squares += p->inner) {
        int32_t sum = 0;
        int64_t square = 0;
        for (int32_t i = 0; i < p->inner; i++) {
            sum += sums[i];
            square += squares[i];
        }
        const pillion_standard by = pillion_standard_of(p, sum, square);
        for (int32_t i = 0; i < p->inner; i++) {
            sums[i] = (int32_t)by.factor;
            squares[i] = (int32_t)by.start;
        }
    }
}

/* The factors and the numbers to add, twice, for the elements of some positions; the last two are one number each if all
 * channels share them. */
typedef struct {
    const int32_t *factors, *starts, *scales, *offsets;
} numbers;

/* `count` elements: all channels of some positions. */
static void some_positions(const params *p, numbers by, const int8_t *x, int32_t count, int8_t *y) {
    int32_t t;
    if (p->each_channel) {
        __asm__ volatile(
            BOUNDS SHIFT "wlstp.32 lr, %[count], 2f\n"
            "1: vldrb.s32 q0, [%[x]], #4\n"
            "vldrw.u32 q3, [%[factors]], #16\n"
            "vmul.i32 q0, q0, q3\n"
            "vldrw.u32 q4, [%[starts]], #16\n"
            "vadd.i32 q0, q0, q4\n"
            "vldrw.u32 q1, [%[f]], #16\n"
            "vrmulh.s32 q0, q0, q1\n"
            "vldrw.u32 q2, [%[o]], #16\n" TO_RESULTS
            : [x] "+&l"(x), [y] "+&l"(y), [f] "+&r"(by.scales), [o] "+&r"(by.offsets), [factors] "+&r"(by.factors),
              [starts] "+&r"(by.starts), [t] "=&r"(t), [p] "+&r"(p)
            : [count] "r"(count)
            : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "cc", "memory");
    } else {
        __asm__ volatile(
            "vdup.32 q1, %[f]\n"
            "vdup.32 q2, %[o]\n" BOUNDS SHIFT "wlstp.32 lr, %[count], 2f\n"
            "1: vldrb.s32 q0, [%[x]], #4\n"
            "vldrw.u32 q3, [%[factors]], #16\n"
            "vmul.i32 q0, q0, q3\n"
            "vldrw.u32 q4, [%[starts]], #16\n"
            "vadd.i32 q0, q0, q4\n"
            "vrmulh.s32 q0, q0, q1\n" TO_RESULTS
            : [x] "+&l"(x), [y] "+&l"(y), [factors] "+&r"(by.factors), [starts] "+&r"(by.starts), [t] "=&r"(t), [p] "+&r"(p)
            : [count] "r"(count), [f] "r"(*by.scales), [o] "r"(*by.offsets)
            : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "cc", "memory");
    }
}

/* The first `channels` of `count` numbers again and again. */
static void repeat(int32_t *numbers, int32_t channels, int32_t count) {
    for (int32_t i = channels; i < count; i++) {
        numbers[i] = numbers[i - channels];
    }
}

static void many_groups(const params *p, const int8_t *x, int8_t *y, int32_t *scratch) {
    const int32_t channels = p->groups * p->inner;
    const int32_t together = channels < FEW_CHANNELS ? (FEW_CHANNELS - 1 + channels) / channels : 1;
    const int32_t most = together * channels;
    int32_t *const sums = scratch, *const squares = sums + most, *const scales = squares + most, *const offsets = scales + most;
    numbers by = {sums, squares, p->factors, p->offsets};
    for (int32_t c = 0; c < channels; c += 4) {
        channel_sums(p, x + c, channels - c < 4 ? channels - c : 4, sums + c, squares + c);
    }
    standards(p, sums, squares);
    if (together > 1) {
        repeat(sums, channels, most);
        repeat(squares, channels, most);
        if (p->each_channel) {
            memcpy(scales, p->factors, (size_t)channels * sizeof *scales);
            memcpy(offsets, p->offsets, (size_t)channels * sizeof *offsets);
            repeat(scales, channels, most);
            repeat(offsets, channels, most);
            by.scales = scales, by.offsets = offsets;
        }
    }
    for (int32_t left = p->positions * channels; left > 0; left -= most, x += most, y += most) {
        some_positions(p, by, x, left < most ? left : most, y);
    }
}

void pillion_normalize_s8_mve(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t step = p->positions * p->groups * p->inner;
    for (int32_t row = 0; row < p->rows; row++, x += step, y += step) {
        if (p->groups == 1) {
            one_group(p, standard_of(p, x), x, y);
        } else {
            many_groups(p, x, y, scratch);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices of 16 bits, for each batch, in sums of 64 bits: scratch holds two vectors of one operand, with zeros up
 * to a multiple of 8; vectors of the other operand are read in place, two at a time. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "halves.h"
#include "pillion/requantize.h"

typedef pillion_batch_matmul_s16_mve_params params;

enum { PIECE = 8, PAIR = 2 };

/* Pieces of a vector, with gaps for another vector's pieces. */
static void hold(const int16_t *x, int32_t step, int32_t count, int16_t *to) {
    const uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step);
    for (; count > 0; count -= PIECE, x += PIECE * step, to += PAIR * PIECE) {
        vst1q_s16(to, vldrhq_gather_shifted_offset_z_s16(x, places, vctp16q((uint32_t)count)));
    }
}

/* A sum times a multiplier of 15 bits fits 60; the right shift rounds, the left one leaves 32 bits, saturated. */
static inline int16_t rounded(const params *p, int64_t sum) {
    register int32_t low __asm__("r2"), high __asm__("r3"); /* an even and an odd one */
    __asm("umull %[low], %[high], %Q[sum], %[multiplier]\n"
          "mla %[high], %R[sum], %[multiplier], %[high]\n"
          "sqrshrl %[low], %[high], #64, %[right]\n"
          "sqshll %[low], %[high], #32\n"
          "ssat %[high], #16, %[high]\n"
          : [low] "=&r"(low), [high] "=&r"(high)
          : [sum] "r"(sum), [multiplier] "r"(p->multiplier), [right] "r"(p->right)
          : "cc");
    return (int16_t)high;
}

/* Both held vectors with two moving ones; not inlined, which leaves registers for the loop. */
static __attribute__((noinline)) void sums_of(const int16_t *held, const int16_t *first, const int16_t *second, int32_t pieces,
                                              int64_t sums[PAIR * PAIR]) {
    int64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (; pieces > 0; pieces--, held += PAIR * PIECE, first += PIECE, second += PIECE) {
        const int16x8_t x0 = vld1q_s16(first), x1 = vld1q_s16(second), h0 = vld1q_s16(held), h1 = vld1q_s16(held + PIECE);
        s0 = vmlaldavaq_s16(s0, x0, h0);
        s1 = vmlaldavaq_s16(s1, x1, h0);
        s2 = vmlaldavaq_s16(s2, x0, h1);
        s3 = vmlaldavaq_s16(s3, x1, h1);
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/* As `products`, of vectors of one or two pieces: held ones stay in registers. */
PILLION_INLINE void products_of_few(const params *p, const int16_t *held, const int16_t *moving, int16_t *y, int32_t y_second,
                                    int32_t pieces) {
    const int16x8_t h0 = vld1q_s16(held), h1 = vld1q_s16(held + PIECE);
    const int16x8_t h2 = vld1q_s16(held + (pieces - 1) * PAIR * PIECE), h3 = vld1q_s16(held + (pieces - 1) * PAIR * PIECE + PIECE);
    for (int32_t left = p->moving; left > 0; left--, moving += p->moving_step, y += p->y_moving_step) {
        const int16x8_t x = vld1q_s16(moving);
        int64_t s0 = vmlaldavq_s16(x, h0), s1 = vmlaldavq_s16(x, h1);
        if (pieces > 1) {
            const int16x8_t x1 = vld1q_s16(moving + PIECE);
            s0 = vmlaldavaq_s16(s0, x1, h2);
            s1 = vmlaldavaq_s16(s1, x1, h3);
        }
        y[0] = rounded(p, s0);
        y[y_second] = rounded(p, s1);
    }
}

/* All moving vectors with two held ones; the last one of an odd number is computed twice, to the same place. */
static void products(const params *p, const int16_t *held, const int16_t *moving, int16_t *y, int32_t y_second) {
    const int32_t pieces = (p->depth + PIECE - 1) / PIECE, step = p->moving_step, y_step = p->y_moving_step;
    if (pieces <= 2) {
        if (pieces == 1) {
            products_of_few(p, held, moving, y, y_second, 1);
        } else {
            products_of_few(p, held, moving, y, y_second, 2);
        }
        return;
    }
    for (int32_t left = p->moving; left > 0; left -= PAIR, moving += PAIR * step, y += PAIR * y_step) {
        const int32_t y_next = left > 1 ? y_step : 0;
        int64_t sums[PAIR * PAIR];
        sums_of(held, moving, moving + (left > 1 ? step : 0), pieces, sums);
        y[0] = rounded(p, sums[0]);
        y[y_next] = rounded(p, sums[1]);
        y[y_second] = rounded(p, sums[2]);
        y[y_second + y_next] = rounded(p, sums[3]);
    }
}

void pillion_batch_matmul_s16_mve(const params *p, const int16_t *held, const int16_t *moving, int16_t *y, void *scratch) {
    int16_t *const pair = scratch, *const start = y;
    for (int32_t n = 0; n < p->batch; n++, held += p->held * p->depth, moving += p->moving * p->depth, y += p->held * p->moving) {
        for (int32_t h = 0; h < p->held; h += PAIR) {
            const int32_t more = h + 1 < p->held; /* an odd one stands twice */
            const int16_t *const x = held + h * p->held_step;
            hold(x, p->held_element_step, p->depth, pair);
            hold(x + more * p->held_step, p->held_element_step, p->depth, pair + PIECE);
            products(p, pair, moving, y + h * p->y_held_step, more * p->y_held_step);
        }
    }
    pillion_mve_clamp_16(start, p->batch * p->held * p->moving, p->low, p->high);
}

#endif

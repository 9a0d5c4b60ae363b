/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits: 17 instructions for 8 inputs, also with weights of four bits (dot.h); weights of the full range as in linear_s4_mve.c. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "linear16.h"
#include "nibbles.h"

#define VECTOR_BYTES (2 * p->in_features)
#define PIECE_OF_NIBBLES EIGHT_OUTPUTS("vldrb.s16", "#8", "s16", "vrshr")
#define FULL_PIECE EIGHT_OUTPUTS("vldrb.s16", "#8", "s16", "vshr")

static __attribute__((noinline)) void groups(state *s, int16_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PILLION_MVE_PIECE_16, s, y, constants, ROUND);
}

static __attribute__((noinline)) void groups_of_nibbles(state *s, int16_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE_OF_NIBBLES, s, y, constants, SEPARATE_PAIRS ROUND);
}

static __attribute__((noinline)) void groups_of_full_nibbles(state *s, int16_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(FULL_PIECE, s, y, constants, SEPARATE_FULL("16") ROUND);
}

static int32_t sum_of(const void *x, int32_t count) {
    int32_t sum = 0;
    __asm__ volatile(
        "dlstp.16 lr, %[count]\n"
        "1: vldrh.u16 q0, [%[x]], #16\n"
        "vaddva.s16 %[sum], q0\n"
        "letp lr, 1b\n"
        : [sum] "+&Te"(sum), [x] "+&r"(x)
        : [count] "r"(count)
        : "lr", "q0", "memory");
    return sum;
}

void pillion_linear_s16_mve(const pillion_linear_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, VECTOR_BYTES, 16 + 16 * p->chunks, groups, 0);
}

void pillion_linear_s16_s4_mve(const pillion_linear_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, VECTOR_BYTES, 16 + 8 * p->chunks, groups_of_nibbles, 0);
}

void pillion_linear_full_s16_s4_mve(const pillion_linear_full_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, VECTOR_BYTES, 16 + 8 * p->chunks, groups_of_full_nibbles, sum_of);
}

#endif

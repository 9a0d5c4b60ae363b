/* SPDX-License-Identifier: Apache-2.0
 * Fully connected with weights of four bits: a byte is 16 * B + A (dot.h). 17 instructions for 16 inputs of eight outputs, as of bytes. Of the full
 * range, with -8, it is 16 * B + A + 8, or 0 behind the inputs, and eight times their sum is taken off. */
#include "linear.h"

#if defined(__ARM_FEATURE_MVE)
#include "nibbles.h"

#define GROUP_WORDS(chunks) (18 + 16 * (chunks))
#define PIECE EIGHT_OUTPUTS("vldrw.u32", "#16", "s8", "vrshr")
#define FULL_PIECE EIGHT_OUTPUTS("vldrw.u32", "#16", "s8", "vshr")

static __attribute__((noinline)) void groups(pillion_mve_linear *s, int8_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE, s, y, constants, SEPARATE_PAIRS PILLION_MVE_LINEAR_MOVE PILLION_MVE_LINEAR_REQUANTIZE);
}

static __attribute__((noinline)) void full_groups(pillion_mve_linear *s, int8_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(FULL_PIECE, s, y, constants, SEPARATE_FULL("24") PILLION_MVE_LINEAR_MOVE PILLION_MVE_LINEAR_REQUANTIZE);
}

static __attribute__((noinline)) void sums_of_groups(pillion_mve_linear *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE, s, y, constants, SEPARATE_PAIRS PILLION_MVE_LINEAR_STORE_SUMS);
}

static __attribute__((noinline)) void full_sums_of_groups(pillion_mve_linear *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(FULL_PIECE, s, y, constants, SEPARATE_FULL("24") PILLION_MVE_LINEAR_STORE_SUMS);
}

static int32_t sum_of(const int8_t *x, int32_t count) {
    int32_t sum = 0;
    __asm__ volatile(
        "dlstp.8 lr, %[count]\n"
        "1: vldrb.u8 q0, [%[x]], #16\n"
        "vaddva.s8 %[sum], q0\n"
        "letp lr, 1b\n"
        : [sum] "+&Te"(sum), [x] "+&r"(x)
        : [count] "r"(count)
        : "lr", "q0", "memory");
    return sum;
}

void pillion_linear_tflite_s4_mve(const pillion_linear_tflite_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_linear_once(p, x, y, scratch, GROUP_WORDS(p->chunks), sums_of_groups, 0);
}

void pillion_linear_tflite_full_s4_mve(const pillion_linear_tflite_full_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_linear_once(p, x, y, scratch, GROUP_WORDS(p->chunks), full_sums_of_groups, sum_of);
}

void pillion_linear_s4_mve(const pillion_linear_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_linear_rows(p, x, y, GROUP_WORDS(p->chunks), groups, 0);
}

void pillion_linear_full_s4_mve(const pillion_linear_full_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_linear_rows(p, x, y, GROUP_WORDS(p->chunks), full_groups, sum_of);
}

#endif

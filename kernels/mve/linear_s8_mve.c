/* SPDX-License-Identifier: Apache-2.0
 * Fully connected: one vector of inputs by eight outputs at a time (linear.h). */
#include "linear.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/once.h"

#define GROUP_WORDS(chunks) (18 + 32 * (chunks))

/* The sums as they are; multipliers and shifts are skipped. */
#define STORE_SUMS                 \
    "strd r0, r8, [r3], #8\n"      \
    "strd r2, r10, [r3], #8\n"     \
    "strd r4, r12, [r3], #8\n"     \
    "strd r6, lr, [r3], #8\n"      \
    "ldr r4, [r11, #20]\n"         \
    "adds r5, #40\n"               \
    "cmp r5, r4\n"

static __attribute__((noinline)) void groups(pillion_mve_linear *s, int8_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, PILLION_MVE_LINEAR_MOVE PILLION_MVE_LINEAR_REQUANTIZE);
}

static __attribute__((noinline)) void sums_of_groups(pillion_mve_linear *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, STORE_SUMS);
}

void pillion_linear_s8_mve(const pillion_linear_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_linear_rows(p, x, y, GROUP_WORDS(p->chunks), groups);
}

void pillion_linear_tflite_s8_mve(const pillion_linear_tflite_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t out_features = p->out_features, count = (out_features + 7) >> 3;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += out_features) {
        pillion_mve_linear s = pillion_mve_linear_of(x, p->chunks, 0, p->constants + count * GROUP_WORDS(p->chunks));
        sums_of_groups(&s, scratch, p->constants);
        pillion_round_once(scratch, p->once, out_features, p->low, p->high, y);
    }
}

#endif

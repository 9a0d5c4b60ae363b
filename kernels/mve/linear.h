/* SPDX-License-Identifier: Apache-2.0
 * Fully connected layers of bytes, whatever the weights: one vector of inputs by eight outputs at a time (eights.h).
 *
 * Registers of the results: r0 zero point, r2 1, the number of the sign fix, r4 end of the constants; q0 q1 sums, q2 q3
 * multipliers, then shifts. */
#ifndef PILLION_MVE_LINEAR_H
#define PILLION_MVE_LINEAR_H

#include "pillion/mve.h"
#include "pillion/once.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "eights.h"

typedef struct {
    pillion_mve_eights of;
    int32_t out_zp, one;     /* 12 16 */
    const int32_t *end;      /* 20: behind the constants */
    int32_t eights;          /* 24: eight times the sum of x, for weights of the full range */
} pillion_mve_linear;
PILLION_FIELDS_AT(pillion_mve_linear, 12, out_zp, one, end, eights);

#define PILLION_MVE_LINEAR_MOVE                       \
    "vmov q0[2], q0[0], r0, r4\n"                     \
    "vmov q0[3], q0[1], r2, r6\n"                     \
    "vmov q1[2], q1[0], r8, r12\n"                    \
    "vmov q1[3], q1[1], r10, lr\n"
#define PILLION_MVE_LINEAR_REQUANTIZE                 \
    "ldrd r0, r2, [r11, #12]\n"                       \
    "ldr r4, [r11, #20]\n"                            \
    "vldrw.u32 q2, [r5], #16\n" /* multipliers, even */ \
    "vqrdmulh.s32 q0, q0, q2\n"                       \
    "vldrw.u32 q3, [r5], #16\n" /* odd */             \
    "vqrdmulh.s32 q1, q1, q3\n"                       \
    "vqdmlah.s32 q0, q0, r2\n"                        \
    "vqdmlah.s32 q1, q1, r2\n"                        \
    "vldrb.s32 q2, [r5]\n" /* shifts, even */         \
    "vrshl.s32 q0, q0, q2\n"                          \
    "vldrb.s32 q3, [r5, #4]\n"                        \
    "vrshl.s32 q1, q1, q3\n"                          \
    "vqmovnb.s32 q0, q0\n"                            \
    "vqmovnt.s32 q0, q1\n"                            \
    "vqadd.s16 q0, q0, r0\n"                          \
    "vqmovnb.s16 q0, q0\n"                            \
    "vstrb.16 q0, [r3], #8\n"                         \
    "adds r5, #8\n"                                   \
    "cmp r5, r4\n"

/* The unscaled sums; multipliers and shifts are skipped. */
#define PILLION_MVE_LINEAR_STORE_SUMS                 \
    "strd r0, r8, [r3], #8\n"                         \
    "strd r2, r10, [r3], #8\n"                        \
    "strd r4, r12, [r3], #8\n"                        \
    "strd r6, lr, [r3], #8\n"                         \
    "ldr r4, [r11, #20]\n"                            \
    "adds r5, #40\n"                                  \
    "cmp r5, r4\n"

/* The sum of an input vector of at least one element. */
typedef int32_t pillion_mve_vector_sum(const int8_t *x, int32_t count);

static inline pillion_mve_linear pillion_mve_linear_of(const int8_t *x, int32_t chunks, int32_t out_zp, const int32_t *end, int32_t eights) {
    const pillion_mve_linear s = {pillion_mve_eights_of(x, chunks), out_zp, 1, end, eights};
    return s;
}

/* All rows. `groups` computes the groups between constants and their end; it reads the sum of x if a function for it is given. */
static inline void pillion_mve_linear_rows(const pillion_linear_s8_mve_params *p, const int8_t *x, int8_t *y, int32_t group_words,
                                           void (*groups)(pillion_mve_linear *s, int8_t *y, const int32_t *constants),
                                           pillion_mve_vector_sum *sum) {
    const int32_t whole = p->out_features >> 3, rest = p->out_features & 7;
    const int32_t *const end = p->constants + whole * group_words;
    int8_t *out = y;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features) {
        const int32_t eights = sum ? 8 * sum(x, p->in_features) : 0;
        if (whole > 0) {
            pillion_mve_linear s = pillion_mve_linear_of(x, p->chunks, p->out_zp, end, eights);
            groups(&s, out, p->constants);
            out += 8 * whole;
        }
        if (rest > 0) { /* eight outputs; surplus ones are dropped */
            int8_t last[8];
            pillion_mve_linear s = pillion_mve_linear_of(x, p->chunks, p->out_zp, end + group_words, eights);
            groups(&s, last, end);
            for (int32_t i = 0; i < rest; i++) {
                *out++ = last[i];
            }
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

/* The same with sums that are rounded once. */
static inline void pillion_mve_linear_once(const pillion_linear_tflite_s8_mve_params *p, const int8_t *x, int8_t *y, int32_t *sums,
                                           int32_t group_words,
                                           void (*sums_of)(pillion_mve_linear *s, void *y, const int32_t *constants),
                                           pillion_mve_vector_sum *sum) {
    const int32_t *const end = p->constants + ((p->out_features + 7) >> 3) * group_words;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        pillion_mve_linear s = pillion_mve_linear_of(x, p->chunks, 0, end, sum ? 8 * sum(x, p->in_features) : 0);
        sums_of(&s, sums, p->constants);
        pillion_round_once(sums, p->once, p->out_features, p->low, p->high, y);
    }
}

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 * Fully connected layers with 16-bit results: one vector of inputs by eight outputs at a time (eights.h).
 *
 * Registers of the results: r4 end of the constants; q0 q1 sums, q2 q3 factors. */
#ifndef PILLION_MVE_LINEAR16_H
#define PILLION_MVE_LINEAR16_H

#include "bytes.h"
#include "eights.h"
#include "halves.h"
#include "pillion/mve.h"

typedef struct {
    pillion_mve_eights of;
    const int32_t *end; /* 12 */
    int32_t eights;     /* 16: eight times the sum of x, for weights of the full range */
} state;
PILLION_FIELDS_AT(state, 12, end, eights);

#define ROUND                                         \
    "vmov q0[2], q0[0], r0, r4\n"                     \
    "vmov q0[3], q0[1], r2, r6\n"                     \
    "vmov q1[2], q1[0], r8, r12\n"                    \
    "vmov q1[3], q1[1], r10, lr\n"                    \
    "vldrw.u32 q2, [r5], #16\n" /* factors, even */   \
    "vqrdmulh.s32 q0, q0, q2\n"                       \
    "vldrw.u32 q3, [r5], #16\n" /* odd */             \
    "vqrdmulh.s32 q1, q1, q3\n"                       \
    "vqmovnb.s32 q0, q0\n"                            \
    "vqmovnt.s32 q0, q1\n"                            \
    "vstrh.16 q0, [r3], #16\n"                        \
    "ldr r4, [r11, #12]\n"                            \
    "cmp r5, r4\n"

/* All vectors, with so many bytes of each and words of constants for eight outputs, which read the sum of x if there is a function for it. */
static inline __attribute__((always_inline)) void vectors(const pillion_linear_s16_mve_params *p, const void *x, int16_t *y, int32_t vector_bytes,
                           int32_t group_words, void (*of)(state *s, int16_t *y, const int32_t *constants),
                           int32_t (*sum)(const void *x, int32_t count)) {
    const int32_t whole = p->out_features >> 3, rest = p->out_features & 7;
    const int32_t *const end = p->constants + whole * group_words;
    const int8_t *from = x;
    int16_t *out = y;
    for (int32_t row = 0; row < p->rows; row++, from += vector_bytes) {
        const pillion_mve_eights begin = pillion_mve_eights_of(from, p->chunks);
        const int32_t eights = sum ? 8 * sum(from, p->in_features) : 0;
        if (whole > 0) {
            state s = {begin, end, eights};
            of(&s, out, p->constants);
            out += 8 * whole;
        }
        if (rest > 0) { /* eight outputs; surplus ones are dropped */
            int16_t last[8];
            state s = {begin, end + group_words, eights};
            of(&s, last, end);
            pillion_mve_copy((int8_t *)out, (const int8_t *)last, 2 * rest);
            out += rest;
        }
    }
    pillion_mve_clamp_16(y, p->rows * p->out_features, p->low, p->high);
}

#endif

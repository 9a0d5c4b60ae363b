/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits: one vector of inputs by eight outputs at a time (eights.h), 17 instructions for 8 inputs, with weights of four bits
 * (dot.h), too. The state ends with the end of the constants. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "eights.h"
#include "halves.h"
#include "nibbles.h"

typedef struct {
    pillion_mve_eights of;
    const int32_t *end; /* 12 */
} state;
PILLION_AT(state, end, 12);

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

#define PIECE_OF_NIBBLES EIGHT_OUTPUTS("vldrb.s16", "#8", "s16", "vrshr")

static __attribute__((noinline)) void groups(state *s, int16_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PILLION_MVE_PIECE_16, s, y, constants, ROUND);
}

static __attribute__((noinline)) void groups_of_nibbles(state *s, int16_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE_OF_NIBBLES, s, y, constants, SEPARATE_PAIRS ROUND);
}

/* All vectors, with so many words of constants for eight outputs. */
static inline __attribute__((always_inline)) void vectors(const pillion_linear_s16_mve_params *p, const int16_t *x, int16_t *y, int32_t group_words,
                           void (*of)(state *s, int16_t *y, const int32_t *constants)) {
    const int32_t whole = p->out_features >> 3, rest = p->out_features & 7;
    const int32_t *const end = p->constants + whole * group_words;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        const pillion_mve_eights begin = pillion_mve_eights_of((const int8_t *)x, p->chunks);
        if (whole > 0) {
            state s = {begin, end};
            of(&s, y, p->constants);
        }
        if (rest > 0) { /* eight outputs, the surplus of which is nothing */
            int16_t last[8];
            state s = {begin, end + group_words};
            of(&s, last, end);
            for (int32_t i = 0; i < rest; i++) {
                y[8 * whole + i] = last[i];
            }
        }
        pillion_mve_clamp_16(y, p->out_features, p->low, p->high);
    }
}

void pillion_linear_s16_mve(const pillion_linear_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, 16 + 16 * p->chunks, groups);
}

void pillion_linear_s16_s4_mve(const pillion_linear_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, 16 + 8 * p->chunks, groups_of_nibbles);
}

#endif

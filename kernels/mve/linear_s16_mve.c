/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits: one vector of inputs by eight outputs at a time (eights.h), 17 instructions for 8 inputs, with weights of four bits
 * (dot.h), too; those of the full range as in linear_s4_mve.c. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "eights.h"
#include "halves.h"
#include "nibbles.h"

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

static int32_t sum_of(const int16_t *x, int32_t count) {
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

/* All vectors, with so many words of constants for eight outputs, which may read the sum of x. */
static inline __attribute__((always_inline)) void vectors(const pillion_linear_s16_mve_params *p, const int16_t *x, int16_t *y, int32_t group_words,
                           void (*of)(state *s, int16_t *y, const int32_t *constants), int32_t is_full) {
    const int32_t whole = p->out_features >> 3, rest = p->out_features & 7;
    const int32_t *const end = p->constants + whole * group_words;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        const pillion_mve_eights begin = pillion_mve_eights_of((const int8_t *)x, p->chunks);
        const int32_t eights = is_full ? 8 * sum_of(x, p->in_features) : 0;
        if (whole > 0) {
            state s = {begin, end, eights};
            of(&s, y, p->constants);
        }
        if (rest > 0) { /* eight outputs, the surplus of which is nothing */
            int16_t last[8];
            state s = {begin, end + group_words, eights};
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
    vectors(p, x, y, 16 + 16 * p->chunks, groups, 0);
}

void pillion_linear_s16_s4_mve(const pillion_linear_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, 16 + 8 * p->chunks, groups_of_nibbles, 0);
}

void pillion_linear_full_s16_s4_mve(const pillion_linear_full_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, 16 + 8 * p->chunks, groups_of_full_nibbles, 1);
}

#endif

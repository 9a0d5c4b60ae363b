/* SPDX-License-Identifier: Apache-2.0
 * Fully connected: one vector of inputs by eight outputs at a time (eights.h).
 *
 * Registers of the results: r0 zero point, r2 1, the number of the sign fix, r4 end of the constants; q0 q1 sums, q2 q3
 * multipliers, then shifts. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "eights.h"
#include "pillion/once.h"

typedef struct {
    pillion_mve_eights of;
    int32_t out_zp, one;     /* 12 16 */
    const int32_t *end;      /* 20: behind the constants */
} state;
PILLION_FIELDS_AT(state, 12, out_zp, one, end);

#define REQUANTIZE                                    \
    "vmov q0[2], q0[0], r0, r4\n"                     \
    "vmov q0[3], q0[1], r2, r6\n"                     \
    "vmov q1[2], q1[0], r8, r12\n"                    \
    "vmov q1[3], q1[1], r10, lr\n"                    \
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

/* The sums as they are; multipliers and shifts are skipped. */
#define STORE_SUMS                 \
    "strd r0, r8, [r3], #8\n"      \
    "strd r2, r10, [r3], #8\n"     \
    "strd r4, r12, [r3], #8\n"     \
    "strd r6, lr, [r3], #8\n"      \
    "ldr r4, [r11, #20]\n"         \
    "adds r5, #40\n"               \
    "cmp r5, r4\n"

static __attribute__((noinline)) void groups(state *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, REQUANTIZE);
}

static __attribute__((noinline)) void sums_of_groups(state *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, STORE_SUMS);
}

static state begin(const int8_t *x, int32_t chunks, int32_t out_zp, const int32_t *constants, int32_t count) {
    const state s = {pillion_mve_eights_of(x, chunks), out_zp, 1, constants + count * (18 + 32 * chunks)};
    return s;
}

static void some_groups(const pillion_linear_s8_mve_params *p, const int8_t *x, int8_t *y, const int32_t *constants,
                        int32_t count) {
    state s = begin(x, p->chunks, p->out_zp, constants, count);
    groups(&s, y, constants);
}

void pillion_linear_s8_mve(const pillion_linear_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t whole = p->out_features >> 3, rest = p->out_features & 7;
    int8_t *out = y;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features) {
        if (whole > 0) {
            some_groups(p, x, out, p->constants, whole);
            out += 8 * whole;
        }
        if (rest > 0) { /* eight outputs, the surplus of which is nothing */
            int8_t last[8];
            some_groups(p, x, last, p->constants + whole * (18 + 32 * p->chunks), 1);
            for (int32_t i = 0; i < rest; i++) {
                *out++ = last[i];
            }
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

void pillion_linear_tflite_s8_mve(const pillion_linear_tflite_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t out_features = p->out_features, count = (out_features + 7) >> 3;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += out_features) {
        state s = begin(x, p->chunks, 0, p->constants, count);
        sums_of_groups(&s, scratch, p->constants);
        pillion_round_once(scratch, p->once, out_features, p->low, p->high, y);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows of weights with a vector, in 16 bits: requantizes the sums of eights.h, and adds them to the earlier sums.
 * Registers of the results: r0 multiplier, r2 shift, r4 the number of the sign fix, r6 end of the constants; q0 q1 sums, q2 q3
 * earlier sums. A left shift (r8) comes first. */
#include "gates.h"

#if defined(__ARM_FEATURE_MVE)
#include "eights.h"

typedef struct {
    pillion_mve_eights of;
    int32_t multiplier, shift; /* 12 16 */
    int32_t fix;               /* 20 */
    const int32_t *end;        /* 24: behind the constants */
    int32_t left;              /* 28 */
} state;
PILLION_FIELDS_AT(state, 12, multiplier, shift, fix, end, left);

#define ADD_TO_SUMS                  \
    "vmov q0[2], q0[0], r0, r4\n"    \
    "vmov q0[3], q0[1], r2, r6\n"    \
    "vmov q1[2], q1[0], r8, r12\n"   \
    "vmov q1[3], q1[1], r10, lr\n"   \
    "ldrd r0, r2, [r11, #12]\n"      \
    "ldrd r4, r6, [r11, #20]\n"      \
    "ldr r8, [r11, #28]\n"           \
    "vldrh.u16 q2, [r3]\n"           \
    "vshl.s32 q0, r8\n"              \
    "vshl.s32 q1, r8\n"              \
    "vqrdmulh.s32 q0, q0, r0\n"      \
    "vqrdmulh.s32 q1, q1, r0\n"      \
    "vmovlb.s16 q3, q2\n"            \
    "vqdmlah.s32 q0, q0, r4\n"       \
    "vqdmlah.s32 q1, q1, r4\n"       \
    "vmovlt.s16 q2, q2\n"            \
    "vrshl.s32 q0, r2\n"             \
    "vrshl.s32 q1, r2\n"             \
    "vqadd.s32 q0, q0, q3\n"         \
    "vqadd.s32 q1, q1, q2\n"         \
    "vqmovnb.s32 q0, q0\n"           \
    "vqmovnt.s32 q0, q1\n"           \
    "vstrh.16 q0, [r3], #16\n"       \
    "cmp r5, r6\n"

static __attribute__((noinline)) void groups(state *s, int16_t *sums, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, sums, constants, ADD_TO_SUMS);
}

void pillion_mve_add_rows(const pillion_mve_rows *rows, const int8_t *x, int16_t *sums) {
    const int32_t *const c = rows->constants;
    state s = {pillion_mve_eights_of(x, rows->chunks), rows->scaling[0], rows->scaling[1], rows->scaling[2],
               c + rows->groups * (8 + 32 * rows->chunks), rows->scaling[3]};
    groups(&s, sums, c);
}

#endif

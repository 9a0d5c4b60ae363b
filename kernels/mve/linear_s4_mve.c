/* SPDX-License-Identifier: Apache-2.0
 * Fully connected with weights of four bits: a byte is 16 * B + A (dot.h). 17 instructions for 16 inputs of eight outputs, as of bytes. */
#include "linear.h"

#if defined(__ARM_FEATURE_MVE)
#define TWO(b, a)                     \
    "vldrw.u32 q1, [r5], #16\n"       \
    "vshl.i8 q3, q1, #4\n"            \
    "vmladava.s8 " b ", q0, q1\n"     \
    "vmladava.s8 " a ", q0, q3\n"
#define PIECE "vldrb.u8 q0, [r1], #16\n" TWO("r0", "r2") TWO("r4", "r6") TWO("r8", "r10") TWO("r12", "lr")
#define SEPARATE                      \
    "sub r0, r0, r2, asr #4\n"        \
    "sub r4, r4, r6, asr #4\n"        \
    "sub r8, r8, r10, asr #4\n"       \
    "sub r12, r12, lr, asr #4\n"
#define SIXTEENTH(s) "asr " s ", " s ", #4\n"
#define SIXTEENTHS                                                                                                       \
    SIXTEENTH("r0") SIXTEENTH("r2") SIXTEENTH("r4") SIXTEENTH("r6") SIXTEENTH("r8") SIXTEENTH("r10") SIXTEENTH("r12") SIXTEENTH("lr")
#define DIVIDE "vshr.s32 q0, q0, #4\n" "vshr.s32 q1, q1, #4\n"

static __attribute__((noinline)) void groups(pillion_mve_linear *s, int8_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE, s, y, constants, SEPARATE PILLION_MVE_LINEAR_MOVE DIVIDE PILLION_MVE_LINEAR_REQUANTIZE);
}

static __attribute__((noinline)) void sums_of_groups(pillion_mve_linear *s, void *y, const int32_t *constants) {
    PILLION_MVE_GROUPS_OF(PIECE, s, y, constants, SEPARATE SIXTEENTHS PILLION_MVE_LINEAR_STORE_SUMS);
}

void pillion_linear_tflite_s4_mve(const pillion_linear_tflite_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_linear_once(p, x, y, scratch, 18 + 16 * p->chunks, sums_of_groups);
}

void pillion_linear_s4_mve(const pillion_linear_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_linear_rows(p, x, y, 18 + 16 * p->chunks, groups);
}

#endif

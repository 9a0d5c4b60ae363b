/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 16-bit inputs with bytes; see dot.h. A piece of 8 inputs is 6 loads, which widen weights, and 8 multiplies. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
typedef int16_t pillion_mve_result;
#define GROUP_WORDS(chunks) (16 + 16 * (chunks))
#define HEAD_WORDS 8
#define GROUP_Y_BYTES "16"
#include "dot_columns.h"

#define LOAD_FACTORS "vldrw.u32 q6, [r5, #-32]\n" "vldrw.u32 q7, [r5, #-16]\n"

#define ROUND_AND_STORE                \
    LOAD_STATE                         \
    "vqrdmulh.s32 q4, q4, q6\n"        \
    "vqrdmulh.s32 q5, q5, q6\n"        \
    "vqrdmulh.s32 q0, q0, q7\n"        \
    "vqrdmulh.s32 q1, q1, q7\n"        \
    "vqmovnb.s32 q4, q4\n"             \
    "vqmovnb.s32 q5, q5\n"             \
    "vqmovnt.s32 q4, q0\n"             \
    "vqmovnt.s32 q5, q1\n"             \
    "cbz r2, 7f\n"                     \
    "vmov.i32 q0, #0\n"                \
    "vmax.s16 q4, q4, q0\n"            \
    "vmax.s16 q5, q5, q0\n"            \
    "7:\n"                             \
    "vstrh.16 q4, [r0]\n"              \
    "add r0, r10\n"                    \
    "vstrh.16 q5, [r0]\n"              \
    "add r0, r10\n"

DOT_LOOP(LOAD_FACTORS, PIECE_OF("vldrb.s16", "#8", "vmladava.s16"), ROUND_AND_STORE)

void pillion_mve_dot16_any(pillion_mve_pairs *s) {
    any_chunks(s);
}

void pillion_mve_dot16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    pillion_mve_dot_task channels = *d;
    channels.out_c = d->out_c / 2;
    products(&channels, x, (int16_t *)(void *)y);
}

#endif

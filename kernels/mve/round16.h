/* SPDX-License-Identifier: Apache-2.0
 * The 16-bit results of dot products (dot_asm.h), of sums of even channels in q4 and q5, of odd ones in q0 and q1; the state is loaded.
 * Negative results become zero by unsigned saturation of a shift by no bit. */
#ifndef PILLION_MVE_ROUND16_H
#define PILLION_MVE_ROUND16_H

#define LOAD_FACTORS "vldrw.u32 q6, [r5, #-32]\n" "vldrw.u32 q7, [r5, #-16]\n"

#define ROUND_AND_STORE(y)             \
    "vqrdmulh.s32 q4, q4, q6\n"        \
    "vqrdmulh.s32 q5, q5, q6\n"        \
    "vqrdmulh.s32 q0, q0, q7\n"        \
    "vqrdmulh.s32 q1, q1, q7\n"        \
    "vqmovnb.s32 q4, q4\n"             \
    "vqmovnb.s32 q5, q5\n"             \
    "vqmovnt.s32 q4, q0\n"             \
    "vqmovnt.s32 q5, q1\n"             \
    "cbz r2, 7f\n"                     \
    "vqshlu.s16 q4, q4, #0\n"          \
    "vqshlu.s16 q5, q5, #0\n"          \
    "7:\n"                             \
    "vstrh.16 q4, [" y "]\n"           \
    "add " y ", r10\n"                 \
    "vstrh.16 q5, [" y "]\n"           \
    "add " y ", r10\n"

#endif

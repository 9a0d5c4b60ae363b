/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution, 16 channels of outputs at a time, with any stride and padding.
 *
 * The input rows of some output rows are copied into scratch, padding included, 16 bytes to a pixel; where a channel has several filters,
 * a byte for each of them. Two taps are
 * multiplied at a time: VMULLB and VMULLT widen to 16 bits, in which two products may be added (|w0| + |w1| <= 255), then
 * to 32. The four vectors of sums are those of the channels {0 4 8 12}, {2 6 10 14}, {1 5 9 13}, {3 7 11 15}, so that
 * narrowing into bottom and top halves restores the order. Where x has but one block of rows, y may be x. */
#ifndef PILLION_MVE_WIDE_H
#define PILLION_MVE_WIDE_H

#include <stdint.h>

#include "pillion/assembly.h"
#include "pillion/mve.h"

/* 16 channels of some rows of outputs, as the loops read it. */
typedef struct {
    const int32_t *taps;          /* r2 */
    const int32_t *constants;     /* r5 */
    const int8_t *x;              /* r3 */
    int32_t pairs;                /* r4 */
    int8_t *y;                    /* r6 */
    int32_t pixels, level;        /* r7 r8; of int8 results the zero point, of int16 ones the least */
    int32_t x_step, y_step;       /* r9 r10 */
    uint32_t lanes;               /* predicate of the existing channels; for int16, of the even ones, then of the odd ones */
    int32_t x_skip, rows;
    int32_t relu, row_bytes;      /* not 0 if results below out_zp become out_zp; bytes of a row of the plane */
} pillion_mve_wide_state;

#if defined(__ARM_FEATURE_MVE)
PILLION_FIELDS_AT(pillion_mve_wide_state, 0, taps, constants, x, pairs, y, pixels, level, x_step, y_step, lanes,
                  x_skip, rows, relu, row_bytes);
#endif

/* All outputs of a state. */
typedef void (*pillion_mve_wide_outputs)(const pillion_mve_wide_state *s);

/* A whole convolution, as many channels at a time as have 16 bytes in x. */
typedef struct {
    pillion_mve_wide_outputs outputs;
    int32_t x_bytes, y_bytes;     /* of an element */
    int32_t numbers;              /* words of constants of these channels, without weights */
} pillion_mve_wide_kind;
void pillion_mve_wide(const pillion_depthwise_any_s8_mve_params *p, const void *x, void *y, int8_t *scratch,
                      const pillion_mve_wide_kind *kind);

/* The beginning of a function over a state: saves registers; r11 is the state, and p0 has its lanes. */
#define WIDE_BEGIN                                       \
    "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n" \
    "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"     \
    "mov r11, r0\n"                                      \
    "ldr r0, [r11, #36]\n"                               \
    "vmsr p0, r0\n"
#define WIDE_RETURN                                  \
    "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n" \
    "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n"
/* The end of a row: goes on at 1 with the windows of the next row at r3, or returns. */
#define WIDE_NEXT_ROW           \
    "ldrd r0, r1, [r11, #40]\n" \
    "adds r3, r0\n"             \
    "subs r1, #1\n"             \
    "str r1, [r11, #44]\n"      \
    "bne.w 1b\n" WIDE_RETURN

/* The products of a tap: bottom halves of q0 times q1 to q2, top halves to q3. */
#define WIDEN_AND_ADD                \
    "vmovlb.s16 q0, q2\n"            \
    "vmovlt.s16 q2, q2\n"            \
    "vmovlb.s16 q1, q3\n"            \
    "vmovlt.s16 q3, q3\n"            \
    "vadd.i32 q4, q4, q0\n"          \
    "vadd.i32 q5, q5, q2\n"          \
    "vadd.i32 q6, q6, q1\n"          \
    "vadd.i32 q7, q7, q3\n"

/* Sums times the factors from this offset of r5 on, over 2^31. */
#define MULTIPLY(q, factors)              \
    "vldrw.u32 q0, [r5, #" factors "]\n"  \
    "vqrdmulh.s32 " q ", " q ", q0\n"

/* Results in q4 to q7 to 16 bits: even channels in q4, odd ones in q6. */
#define NARROW                       \
    "vqmovnb.s32 q4, q4\n"           \
    "vqmovnt.s32 q4, q5\n"           \
    "vqmovnb.s32 q6, q6\n"           \
    "vqmovnt.s32 q6, q7\n"
#define NEXT_PIXEL                   \
    "add r6, r10\n"                  \
    "add r3, r9\n"

/* With the zero point r8, to the 16 channels at r6, as far as there are. */
#define STORE_INT8                   \
    NARROW                           \
    "vqadd.s16 q4, q4, r8\n"         \
    "vqadd.s16 q6, q6, r8\n"         \
    STORE_BYTES

/* Results of 16 bits, in the order of NARROW, that have the zero point, in the same way. */
#define STORE_BYTES                  \
    "vqmovnb.s16 q4, q4\n"           \
    "vqmovnt.s16 q4, q6\n"           \
    "vpst\n"                         \
    "vstrbt.8 q4, [r6]\n"            \
    NEXT_PIXEL

/* The same as 16 bits that are at least r8. */
#define STORE_INT16                  \
    NARROW                           \
    "ldr r0, [r11, #36]\n"           \
    "vdup.16 q0, r8\n"               \
    "vmsr p0, r0\n"                  \
    "vmax.s16 q4, q4, q0\n"          \
    "vmax.s16 q6, q6, q0\n"          \
    "movs r2, #0\n"                  \
    "vidup.u16 q1, r2, #4\n"         \
    "vpst\n"                         \
    "vstrht.16 q4, [r6, q1]\n"       \
    "lsrs r0, #16\n"                 \
    "vmsr p0, r0\n"                  \
    "adds r1, r6, #2\n"              \
    "vpst\n"                         \
    "vstrht.16 q6, [r1, q1]\n"       \
    NEXT_PIXEL

/* The weights of a tap of eight channels of 16 bits, and their products with a pixel, to sums of even channels and of odd ones. */
#define WEIGHTS_16(w) "vldrb.s16 q1, [r5" w "\n"
#define PRODUCTS_16(x, even, odd)            \
    "vldrh.u16 q0, [" x "]\n"                \
    "vmullb.s16 q2, q0, q1\n"                \
    "vmullt.s16 q3, q0, q1\n"                \
    "vadd.i32 " even ", " even ", q2\n"      \
    "vadd.i32 " odd ", " odd ", q3\n"

/* Sums of even and odd channels times the factors in q2 and q3, as 16 bits. */
#define NARROW_16(even, odd)                 \
    "vqrdmulh.s32 " even ", " even ", q2\n"  \
    "vqrdmulh.s32 " odd ", " odd ", q3\n"    \
    "vqmovnb.s32 " even ", " even "\n"       \
    "vqmovnt.s32 " even ", " odd "\n"
#define FACTORS_16(even, odd)                \
    "vldrw.u32 q2, [r5, #" even "]\n"        \
    "vldrw.u32 q3, [r5, #" odd "]\n"
/* Results that are at least r8, which are put into q0, to the channels at r6, as far as there are. */
#define LEAST_16 "vdup.16 q0, r8\n"
#define STORE_16(results)                    \
    "vmax.s16 " results ", " results ", q0\n" \
    "vpst\n"                                 \
    "vstrht.16 " results ", [r6]\n"          \
    NEXT_PIXEL

/* From the sums of a pixel in q4 and q5, and of the one after it in q6 and q7, with the factors from r5 on. */
#define RESULTS_16(even, odd) FACTORS_16(even, odd) NARROW_16("q4", "q5") LEAST_16 STORE_16("q4")
#define RESULTS_OF_TWO_16(even, odd) \
    FACTORS_16(even, odd) NARROW_16("q4", "q5") NARROW_16("q6", "q7") LEAST_16 STORE_16("q4") STORE_16("q6")
#define SECOND_SUMS "vmov q6, q4\n" "vmov q7, q5\n"

#endif

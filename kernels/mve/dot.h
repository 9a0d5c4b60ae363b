/* SPDX-License-Identifier: Apache-2.0
 * The dot products that the Helium convolutions share. */
#ifndef PILLION_MVE_DOT_H
#define PILLION_MVE_DOT_H

#include <stdint.h>

/* The inputs and the state of a loop: pairs of pixels for groups of eight channels. Words 0 to 11 are loaded into these
 * registers by LOAD_STATE (dot_asm.h), the others are known by their offsets. */
typedef struct {
    int8_t *y;                             /* r0 */
    const int8_t *x0;                      /* r1 */
    int32_t signs;                         /* r2: pillion_mve_signs */
    const int8_t *x1;                      /* r3 */
    int32_t out_zp;                        /* r4 */
    const int32_t *constants;              /* r5: of the group, behind its multipliers */
    const int8_t *row_end;                 /* r6: y behind the row */
    int32_t loops, x_step;                 /* r7, r8: per pair */
    int32_t even_entry;                    /* r9 */
    int32_t y_step, one;                   /* r10, r12 */
    int32_t loops_again, odd_entry;        /* 48, 52 */
    int32_t rows_left;                     /* 56 */
    int32_t x_skip, y_skip, y_row;         /* 60 64 68: from the end of a row to the next one, and from end to end */
    int32_t groups_left, group_bytes;      /* 72 76 */
    int32_t rows;                          /* 80 */
    int8_t *first_y;                       /* 84: of the group */
    const int8_t *first_x0, *first_x1;     /* 88 92 */
    const int8_t *first_row_end;           /* 96 */
    int32_t factors[8];                    /* 100: of the group, 2^(31 - right shift) or 2^31 - 1, even channels, then odd ones */
    /* 132: for loops that keep places in registers: r2 r4 r5 r6 r8 r10 r12 of the results, as above */
    int32_t kept_signs, kept_out_zp;
    const int32_t *kept_constants;
    const int8_t *kept_row_end;
    int32_t kept_x_step, kept_y_step, kept_one;
} pillion_mve_pairs;

/* The treatment of h below zero, where halves are rounded away from zero (README.md). */
enum pillion_mve_signs {
    PILLION_MVE_SIGN_FIX,    /* one is subtracted */
    PILLION_MVE_FACTORS_FIX, /* nothing: factors are larger by one, which moves only halves. Right shifts are at most 11 */
    PILLION_MVE_RECTIFIED    /* nothing: results below the zero point become the zero point */
};

/* A loop over all pairs. They are given the number of pieces of 16 inputs in `loops`. */
typedef void (*pillion_mve_loop)(pillion_mve_pairs *s);
void pillion_mve_dot_any(pillion_mve_pairs *s);
void pillion_mve_dot_2(pillion_mve_pairs *s);
void pillion_mve_dot_3(pillion_mve_pairs *s);
void pillion_mve_dot_4(pillion_mve_pairs *s);
void pillion_mve_dot_left(pillion_mve_pairs *s); /* for sums that are shifted left */

/* y[pixel][c] = saturate(requantize(bias[c] + sum_k x[pixel][k] * w[c][k]) + out_zp), the input offset being in the bias.
 * Constants, for each group of eight channels (the last group starts at out_c - 8 and may repeat channels; below eight
 * channels the group is filled with zeros), "even" being channels 0 2 4 6 of the group and "odd" 1 3 5 7:
 *     int8 31 - right shift, even[4], odd[4]; right shifts are from 0 to 31, with the sign fix from 1 on. More than 31 is a left shift,
 *     which pillion_mve_dot_left does before it multiplies
 *     int32 multiplier even[4], odd[4]
 *     int32 bias even[4];  int8 weights[chunks][even 4][16]
 *     int32 bias odd[4];   int8 weights[chunks][odd 4][16]
 */
typedef struct {
    pillion_mve_loop loop;
    int32_t rows, row_bytes;     /* rows of pixels; from one to the next in x. In y all pixels follow each other */
    int32_t pixels, pixel_bytes; /* of a row, at least one; from one to the next in x */
    int32_t out_c, chunks;
    int32_t out_zp;
    int32_t signs;               /* pillion_mve_signs */
    const int32_t *constants;
    int8_t *room;                /* for constants that are unpacked (unpack.h) */
} pillion_mve_dot_task;
typedef void (*pillion_mve_products)(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
void pillion_mve_dot(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
/* The first groups of eight channels alone. */
typedef void (*pillion_mve_some_products)(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t count);
void pillion_mve_dot_groups(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t count);

/* The same with weights of four bits: two channels A, B share a byte 16 * B + A, from which VRSHR by 4 extracts B. The products of the byte sum to
 * 16 * S_B + S_A; sums may wrap around. Constants, for each group of eight channels:
 *     int8 31 - right shift, int32 multiplier as above
 *     int32 initial sums, 16 * B + A and B of every two even channels;  int8 weights[chunks][2][16]
 *     the same of odd channels
 */
void pillion_mve_dot_4bit(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
void pillion_mve_dot_4bit_any(pillion_mve_pairs *s);
void pillion_mve_dot_4bit_2(pillion_mve_pairs *s);
void pillion_mve_dot_4bit_3(pillion_mve_pairs *s);
void pillion_mve_dot_4bit_4(pillion_mve_pairs *s);

/* The same of 16-bit inputs in pieces of 8, for 16-bit results without a zero point, y = saturate(round(sum * factor / 2^31)).
 * `out_c` is in bytes; results below 0 become 0 where `signs` is not 0. Constants, for each group of eight channels:
 *     int32 factor even[4], odd[4]
 *     int32 bias even[4];  int8 weights[chunks][even 4][8]
 *     int32 bias odd[4];   int8 weights[chunks][odd 4][8]
 */
void pillion_mve_dot16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
void pillion_mve_dot16_groups(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t count);
void pillion_mve_dot16_any(pillion_mve_pairs *s);
void pillion_mve_dot16_few(pillion_mve_pairs *s); /* at most 8 pieces */

/* The same of 8-bit inputs in pieces of 16: int8 weights[chunks][4][16] of each half of the channels. */
void pillion_mve_dot_s8_s16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
void pillion_mve_dot_s8_s16_any(pillion_mve_pairs *s);
void pillion_mve_dot_s8_s16_2(pillion_mve_pairs *s);
void pillion_mve_dot_s8_s16_3(pillion_mve_pairs *s);
void pillion_mve_dot_s8_s16_4(pillion_mve_pairs *s);

/* The same of 16-bit inputs with weights of four bits, two channels in a byte as above: int8 weights[chunks][2][8] of each half of the channels. */
void pillion_mve_dot16_4(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
void pillion_mve_dot16_4_any(pillion_mve_pairs *s);

/* Both with weights of four bits, -8 as well, two vectors of the constants above in one (unpack.h), by the loops of bytes. */
void pillion_mve_dot_unpacked(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
void pillion_mve_dot16_unpacked(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);

/* The same of bytes for at most 16 inputs, at least four pixels, out_c a multiple of 4, y aligned to 4; `loop` and `chunks` are not
 * used, and signs is not PILLION_MVE_FACTORS_FIX. Constants, for each group of four channels, in the order 0 2 1 3:
 *     int32 bias, multiplier, shift;  int8 weights[16]
 */
void pillion_mve_dot_16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
/* The same with weights of four bits: int8 weights[16] of each two channels, the first in the low halves, then the numbers of both. */
void pillion_mve_dot_16_4bit(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);
/* The same with 16-bit results and weights of bytes, out_c, which is in bytes, a multiple of 4. Constants, for each channel:
 *     int32 bias, factor;  int8 weights[16]
 */
void pillion_mve_dot_16_s8_s16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y);

#endif

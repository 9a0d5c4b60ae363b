/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution, one channel at a time, by strips: four rows of the padded channel laid out column by column, four
 * elements to a column, so that any 16 are a window of 4x4. Strips begin with every second padded row: neighbours share
 * a pair of rows. "Rows" and "columns" may be exchanged, and the kernel transposed, so that the longer side of an image lies
 * along the strips. The compiler puts all places into tables of words (emitters/c/mve).
 *
 * A long channel of halfwords is made in bands, so that strips need less memory. The strips of a band, and the first one of
 * the next, are made before the outputs of the band: y may be x. Every second band goes back from there. */
#ifndef PILLION_MVE_STRIPS_H
#define PILLION_MVE_STRIPS_H

#include <stdint.h>

#include "pillion/assembly.h"
#include "pillion/mve.h"

/* How strips are made: blocks of eight columns, each from top to bottom. Steps are in bytes of x and of the strips. */
typedef struct {
    int32_t pair_step, strip_step;       /* from two rows to the next two */
    int32_t inner, blocks;               /* pairs of rows between the first one and the last one; blocks of columns */
    int32_t second_x, second_strip;      /* from the first block to the second */
    int32_t next_x, next_strip;          /* and from there on */
    int32_t top[2], bottom[2];           /* predicates of the first and of the last pair: rows inside the image */
    int32_t from, to;                    /* offsets of the first row and of its column in the strips */
    int32_t zp;                          /* value of padding */
    int32_t single;                      /* one strip: of four rows of the image, of three, or 0 */
    uint16_t columns[8], next_columns[8]; /* offsets of eight columns, and of the same one row below */
} pillion_mve_strip_build;

/* A band of halfwords. */
typedef struct {
    pillion_mve_strip_build build;
    int32_t passes;                      /* the passes of this band, if another one follows, otherwise 0 */
} pillion_mve_strip_band;

/* Which outputs are made of strips: `blocks` blocks of eight outputs of each strip, of two rows of four columns, or of one row. */
typedef struct {
    int32_t strip_skip, y_skip;          /* from the end of a strip's last block to the next strip */
    int32_t blocks, y_block;             /* from block to block */
    int32_t strip, strip_end, y;         /* offsets: first window, that of the strip after the last, first output */
    int32_t kind;                        /* 1: no further pass; 2: one row of outputs, of the last strip */
    uint16_t outputs[8];                 /* offsets of eight outputs, in the order of the lanes */
} pillion_mve_strip_pass;

/* A channel: the numbers of its sums, and its kernel: three columns of three weights and a zero, behind another zero. */
typedef struct {
    const int8_t *strips;
    int8_t *y;
    const int8_t *kernel;
    int32_t level;                       /* of int8 results the zero point, of int16 ones the least */
    const int32_t *numbers;              /* of this channel and of the next ones; the outputs advance it */
} pillion_mve_strip_channel;

#if defined(__ARM_FEATURE_MVE)
PILLION_FIELDS_AT(pillion_mve_strip_build, 0, pair_step, strip_step, inner, blocks, second_x, second_strip, next_x,
                  next_strip, top);
PILLION_AT(pillion_mve_strip_build, bottom, 40);
PILLION_FIELDS_AT(pillion_mve_strip_build, 48, from, to, zp, single, columns);
PILLION_AT(pillion_mve_strip_build, next_columns, 80);
PILLION_FIELDS_AT(pillion_mve_strip_pass, 0, strip_skip, y_skip, blocks, y_block, strip, strip_end, y, kind, outputs);
PILLION_BYTES(pillion_mve_strip_pass, 48);
PILLION_FIELDS_AT(pillion_mve_strip_channel, 0, strips, y, kernel, level, numbers);
#endif

typedef void (*pillion_mve_strip_outputs)(pillion_mve_strip_channel *channel, const pillion_mve_strip_pass *passes);
void pillion_mve_strips_of_bytes(const pillion_mve_strip_build *b, const int8_t *x, void *strips);

/* A whole convolution of bytes to elements of `y_bytes` bytes: of each channel the strips, then the outputs. */
void pillion_mve_strips(const pillion_depthwise_3x3_s8_mve_params *p, const int8_t *x, void *y, void *scratch,
                        pillion_mve_strip_outputs outputs, int32_t y_bytes);
/* A whole convolution of halfwords, band by band. */
void pillion_mve_strips_of_halfwords(const pillion_depthwise_3x3_s8_mve_params *p, const int16_t *x, int16_t *y, void *scratch,
                                     pillion_mve_strip_outputs outputs);

#endif

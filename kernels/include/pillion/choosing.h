/* SPDX-License-Identifier: Apache-2.0
 * Portable kernels that compare, choose and compute with whole numbers. As kernels.h says, which includes this file. */
#ifndef PILLION_CHOOSING_H
#define PILLION_CHOOSING_H

#include <stdint.h>

/* Two operands, broadcast by steps of 0: `rows` of `count` elements. Within a row an operand has as many elements (step 1) or one
 * (step 0); `axes` lead from row to row (see walk.h). */
#define PILLION_BROADCAST_FIELDS                    \
    int32_t rows, count, a_step, b_step, axes;      \
    const int32_t *extent, *a_row_step, *b_row_step; /* [axes] */

/* Booleans are bytes of 0 and 1. A relation is a set of outcomes: 1 for less, 2 for equal, 4 for greater. */

/* y = whether the relation holds of the keys of a and b. A key is the place of a level in the order
 * of all levels of both. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t relation;
    const uint16_t *a_key; /* [256]: of x at x + 128 */
    const uint16_t *b_key; /* [256] */
} pillion_compare_s8_params;
void pillion_compare_s8(const pillion_compare_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* y = whether the relation holds of two integers of 32 bits. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t relation;
} pillion_compare_s32_params;
void pillion_compare_s32(const pillion_compare_s32_params *p, const int32_t *a, const int32_t *b, int8_t *y, void *scratch);

/* y = an operation on integers of 32 bits: a + b (0), a - b (1), a * b (2), the smaller (3) or
 * larger one (4), quotient and remainder rounded down (5, 6) or towards zero (7, 8), and (9), or (10), exclusive or (11), a shifted
 * to the left (12) or right (13). Results keep their lowest 32 bits; a division by 0 gives 0, with remainder a. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t calculation;
} pillion_integer_arithmetic_s32_params;
void pillion_integer_arithmetic_s32(const pillion_integer_arithmetic_s32_params *p, const int32_t *a, const int32_t *b, int32_t *y, void *scratch);

/* y = condition ? a : b, of elements of 1, 2 or 4 bytes, all three broadcast. Steps count elements. */
typedef struct {
    int32_t rows, count, element_bytes, condition_step, a_step, b_step, axes;
    const int32_t *extent, *condition_row_step, *a_row_step, *b_row_step; /* [axes] */
} pillion_where_params;
void pillion_where(const pillion_where_params *p, const int8_t *condition, const void *a, const void *b, void *y,
                   void *scratch);

/* x as [outer][size][inner]: the first place of the largest element along the middle axis. */
typedef struct {
    int32_t outer, size, inner;
} pillion_arg_max_s8_params;
void pillion_arg_max_s8(const pillion_arg_max_s8_params *p, const int8_t *x, int32_t *y, void *scratch);

/* The first place of the smallest one. */
typedef pillion_arg_max_s8_params pillion_arg_min_s8_params;
void pillion_arg_min_s8(const pillion_arg_min_s8_params *p, const int8_t *x, int32_t *y, void *scratch);

/* The k most extreme of each row of `size` elements in their order, equal ones in the order in which they lie. */
typedef struct {
    int32_t rows, size, k, largest;
} pillion_top_values_s8_params;
void pillion_top_values_s8(const pillion_top_values_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The positions of the k most extreme values. */
typedef pillion_top_values_s8_params pillion_top_places_s8_params;
void pillion_top_places_s8(const pillion_top_places_s8_params *p, const int8_t *x, int32_t *y, void *scratch);

/* The first `most` runs of equal numbers of each row of `size`, each as the number and its count; pairs of 0 behind the last one. */
typedef struct {
    int32_t rows, size, most;
} pillion_run_lengths_s32_params;
void pillion_run_lengths_s32(const pillion_run_lengths_s32_params *p, const int32_t *x, int32_t *y, void *scratch);

/* The positions of the boxes with the best scores above a threshold; -1 behind them. No box overlaps a better one too much: has more in
 * common with it than `share`, in 2^-31, of both areas. Scratch: a byte for each box of an image. */
typedef struct {
    int32_t images, boxes, most, threshold, share;
} pillion_non_max_suppression_s8_params;
void pillion_non_max_suppression_s8(const pillion_non_max_suppression_s8_params *p, const int8_t *boxes, const int8_t *scores,
                                    int32_t *y, void *scratch);

/* Boxes around anchors with the best scores: their corners, classes, scores and number. No box overlaps a better one too much.
 * Scratch: 25 bytes for each box, 12 for each possible result. */
typedef struct {
    int32_t boxes, boxes_step, scores_step, first_class, classes;
    int32_t most, by_class;
    float score_threshold, iou_threshold;
    const double *scales; /* [4] */
    const float *anchors; /* [boxes][4] */
} pillion_detections_f32_params;
void pillion_detections_f32(const pillion_detections_f32_params *p, const float *boxes, const float *scores, float *y,
                            void *scratch);

#endif

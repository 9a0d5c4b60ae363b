/* SPDX-License-Identifier: Apache-2.0
 * Rows of two operands and a result, each of 8 or 16 bits, with a loop for each combination. The including file defines `params`, FOUR (a
 * loop over four elements at a time, by the loads of operands and the store of results), RESULT (the vector to store) and NUMBERS (the inputs
 * of its loops besides `p`, `a`, `b` and `y`). Loops of eight elements define their loads and stores, too. */
#include "bytes.h"
#include "halves.h"

#ifndef WIDE
#define WIDE(q, x) "vldrh.s32 " q ", [%[" x "]], #8\n"
#define BYTES(q, x) "vldrb.s32 " q ", [%[" x "]], #4\n"
#define TO_WIDE "vstrh.32 " RESULT ", [%[y]], #8\n"
#define TO_BYTES "vqmovnb.s16 " RESULT ", " RESULT "\n" "vstrb.32 " RESULT ", [%[y]], #4\n"
#endif

static void of_two_wide(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    NUMBERS;
    if (p->y_bytes == 2) {
        FOUR(WIDE("q0", "a"), WIDE("q1", "b"), TO_WIDE);
    } else {
        FOUR(WIDE("q0", "a"), WIDE("q1", "b"), TO_BYTES);
    }
}

static void of_one_wide(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    NUMBERS;
    if (p->y_bytes == 2) {
        FOUR(WIDE("q0", "a"), BYTES("q1", "b"), TO_WIDE);
    } else {
        FOUR(WIDE("q0", "a"), BYTES("q1", "b"), TO_BYTES);
    }
}

static void of_bytes(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    NUMBERS;
    FOUR(BYTES("q0", "a"), BYTES("q1", "b"), TO_WIDE);
}

static void wide_clamp(const params *p, void *y) {
    if (p->y_bytes == 2) {
        pillion_mve_clamp_16(y, p->rows * p->count, p->low, p->high);
    } else {
        pillion_mve_clamp(y, p->rows * p->count, p->low, p->high);
    }
}

static void wide_rows(const params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    for (int32_t row = 0; row < p->rows; row++) {
        if (p->b_bytes == 2) {
            of_two_wide(p, a, b, y);
        } else if (p->a_bytes == 2) {
            of_one_wide(p, a, b, y);
        } else {
            of_bytes(p, a, b, y);
        }
        a += p->a_row_step * p->a_bytes;
        b += p->b_row_step * p->b_bytes;
        y += p->count * p->y_bytes;
    }
}

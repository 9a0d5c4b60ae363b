/* SPDX-License-Identifier: Apache-2.0
 * Sums and means over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], four elements at a time; the last
 * four overlap those before. */
#include "smmlar.h"
#include "sums.h"

#if PILLION_HAS_DSP

/* Adds `rows` words, c bytes apart. */
static void add_words(const int8_t *x, int32_t rows, int32_t c, int32_t *sums) {
    for (; rows > 0; rows -= MOST_ROWS, x += MOST_ROWS * c) {
        uint32_t even = 0, odd = 0;
        add_rows(x, rows < MOST_ROWS ? rows : MOST_ROWS, c, &even, &odd);
        add_halves(sums, even), add_halves(sums + 1, odd);
    }
}

static int8_t result(const pillion_reduce_sum_s8_dsp_params *p, int32_t sum) {
    return (int8_t)pillion_dsp_requantize(2 * (sum - p->reduced * p->in_zp), p->round, p->multiplier, p->right);
}

static void four_sums(const pillion_reduce_sum_s8_dsp_params *p, const int8_t *x, int8_t *y) {
    int32_t sums[4] = {0, 0, 0, 0};
    add_words(x, p->reduced, p->inner, sums);
    for (int32_t i = 0; i < 4; i++) {
        y[i] = result(p, sums[i]);
    }
}

/* A result alone, of elements side by side. */
static int8_t sum_of_row(const pillion_reduce_sum_s8_dsp_params *p, const int8_t *x) {
    int32_t sums[4] = {0, 0, 0, 0};
    add_words(x, p->reduced >> 2, 4, sums);
    for (int32_t i = p->reduced & ~3; i < p->reduced; i++) {
        sums[0] += x[i];
    }
    return result(p, sums[0] + sums[1] + sums[2] + sums[3]);
}

void pillion_reduce_sum_s8_dsp(const pillion_reduce_sum_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->outer; n++, x += p->reduced * p->inner, y += p->inner) {
        if (p->inner == 1) {
            *y = sum_of_row(p, x);
            continue;
        }
        for (int32_t i = 0; i < p->inner; i += 4) {
            const int32_t first = i + 4 > p->inner ? p->inner - 4 : i;
            four_sums(p, x + first, y + first);
        }
    }
}
#endif

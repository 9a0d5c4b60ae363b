/* SPDX-License-Identifier: Apache-2.0
 * Sums and means over neighbouring axes: of x[outer][reduced][inner] to y[outer][inner], four elements at a time; the last
 * four overlap those before. Where nothing lies behind the axes that go, USADA8 adds up four of a result's own elements. */
#include "smmlar.h"
#include "sums.h"

#if PILLION_HAS_DSP

static inline int8_t result(const pillion_reduce_sum_s8_dsp_params *p, int32_t sum) {
    return (int8_t)pillion_dsp_requantize(2 * sum, p->round, p->multiplier, p->right);
}

static void four_sums(const pillion_reduce_sum_s8_dsp_params *p, const int8_t *x, int8_t *y) {
    const int32_t inner = p->inner, none = -p->reduced * p->in_zp;
    int32_t sums[4] = {none, none, none, none};
    for (int32_t rows = p->reduced; rows > 0; rows -= MOST_ROWS, x += MOST_ROWS * inner) {
        uint32_t even = 0, odd = 0;
        add_rows(x, rows < MOST_ROWS ? rows : MOST_ROWS, inner, &even, &odd);
        add_halves(sums, even), add_halves(sums + 1, odd);
    }
    for (int32_t i = 0; i < 4; i++) {
        y[i] = result(p, sums[i]);
    }
}

/* The sum of four bytes, each 128 larger, more than another sum: their differences from nothing. */
static inline uint32_t add_word(const int8_t *x, uint32_t sum) {
    uint32_t four;
    memcpy(&four, x, 4);
    four ^= 0x80808080u;
    __asm("usada8 %0, %1, %2, %0" : "+r"(sum) : "r"(four), "r"(0));
    return sum;
}

/* A result alone, of elements side by side. */
static int8_t sum_of_row(const pillion_reduce_sum_s8_dsp_params *p, const int8_t *x) {
    int32_t left = p->reduced;
    uint32_t sum = -128u * (uint32_t)(left & ~3) - (uint32_t)(left * p->in_zp);
    for (; left >= 16; left -= 16, x += 16) {
        sum = add_word(x + 12, add_word(x + 8, add_word(x + 4, add_word(x, sum))));
    }
    for (; left >= 4; left -= 4, x += 4) {
        sum = add_word(x, sum);
    }
    for (; left > 0; left--) {
        sum += (uint32_t)*x++;
    }
    return result(p, (int32_t)sum);
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

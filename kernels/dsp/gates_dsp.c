/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows of weights with a vector, in 16 bits: two weights to a halfword, as in dot_dsp.c, two such pairs at a time. Four inputs
 * take fifteen instructions for sixteen products. */
#include "gates.h"
#include "pillion/fixed16.h"
#include "smmlar.h"
#include "widen.h"

#if PILLION_HAS_DSP

#define PAIR(t, s)                             \
    "ldrd %[e], %[f], [%[w]], #8\n"            \
    "smlad %[" t "], %[a], %[e], %[" t "]\n"   \
    "sxtb16 %[e], %[e]\n"                      \
    "smlad %[" s "], %[a], %[e], %[" s "]\n"   \
    "smlad %[" t "], %[b], %[f], %[" t "]\n"   \
    "sxtb16 %[f], %[f]\n"                      \
    "smlad %[" s "], %[b], %[f], %[" s "]\n"
#define FOUR "ldrd %[a], %[b], [%[x]], #8\n" PAIR("t", "s") PAIR("u", "v")

/* A sum is requantized, the second time only if there is a right shift, and added in 16 bits. */
static void add(int32_t sum, const int32_t *scaling, int16_t *to) {
    const int32_t right = scaling[1], twice = (int32_t)((uint32_t)sum << 1 << scaling[2]);
    int32_t y = (1 << right >> 1) + (right != 0 ? sum >> 31 : 0);
    __asm("smmlar %0, %1, %2, %0" : "+r"(y) : "r"(twice), "r"(scaling[0]));
    *to = (int16_t)pillion_saturate16((y >> right) + *to);
}

const int32_t *pillion_dsp_add_rows(const pillion_dsp_rows *rows, const int32_t *x, int16_t *sums) {
    const int32_t *w = rows->stream;
    for (int32_t group = rows->groups; group > 0; group--, sums += 4, w += 4) {
        int32_t t = 0, s = 0, u = 0, v = 0, a, b, e, f, eights = rows->eights;
        const int32_t *next = x;
        __asm volatile("1:\n" FOUR FOUR
                       "subs %[eights], %[eights], #1\n"
                       "bne 1b\n"
                       : [t] "+r"(t), [s] "+r"(s), [u] "+r"(u), [v] "+r"(v), [a] "=&r"(a), [b] "=&r"(b), [e] "=&r"(e),
                         [f] "=&r"(f), [x] "+r"(next), [w] "+r"(w), [eights] "+r"(eights)
                       :
                       : "cc", "memory");
        add(s + w[0], rows->scaling, sums);
        add(((t - s) >> 8) + w[1], rows->scaling, sums + 1);
        add(v + w[2], rows->scaling, sums + 2);
        add(((u - v) >> 8) + w[3], rows->scaling, sums + 3);
    }
    return w;
}

void pillion_dsp_widen_row(const int8_t *x, int32_t count, int32_t *to) {
    const int32_t eights = count >> 3, rest = count & 7;
    if (eights > 0) {
        pillion_dsp_widen_eights(x, eights, to);
    }
    if (rest > 0) {
        int8_t last[8] = {0};
        for (int32_t i = 0; i < rest; i++) {
            last[i] = x[8 * eights + i];
        }
        pillion_dsp_widen_eights(last, 1, to + 4 * eights);
    }
}

void pillion_dsp_sums_of_gates(const pillion_dsp_gates *p, int32_t gates, const int8_t *x, const int8_t *h, int16_t *sums) {
    int32_t *const wide_x = (int32_t *)(void *)(sums + 4 * p->groups * gates), *const wide_h = wide_x + 4 * p->eights;
    pillion_dsp_rows first = {p->stream, p->scalings, p->groups, p->eights};
    pillion_dsp_rows second = {p->recurrent_stream, p->scalings + 3 * gates, p->groups, p->recurrent_eights};
    pillion_dsp_widen_row(x, p->inputs, wide_x);
    pillion_dsp_widen_row(h, p->outputs, wide_h);
    for (int32_t gate = 0; gate < gates; gate++, sums += 4 * p->groups, first.scaling += 3, second.scaling += 3) {
        for (int32_t i = 0; i < 4 * p->groups; i++) {
            sums[i] = 0;
        }
        first.stream = pillion_dsp_add_rows(&first, wide_x, sums);
        second.stream = pillion_dsp_add_rows(&second, wide_h, sums);
    }
}
#endif

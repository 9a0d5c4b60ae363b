/* SPDX-License-Identifier: Apache-2.0 */
#include "dot.h"

/* The constants of a pair of channels. */
typedef struct {
    int32_t bias[PILLION_SCALAR_PAIR];
    pillion_scalar_scale scale[PILLION_SCALAR_PAIR];
} pair;

/* `sums` is [channel][pixel]. */
#if PILLION_SCALAR_ASSEMBLY == 2

/* An input of three pixels meets two weights: nine instructions for six products. */
#define INPUT(first, second)          \
    "ldm %[x]!, {r4, r5, r6}\n\t"     \
    "ldrsb %[w], [%[ws]" first "\n\t" \
    "mla %[a0], r4, %[w], %[a0]\n\t"  \
    "mla %[a1], r5, %[w], %[a1]\n\t"  \
    "mla %[a2], r6, %[w], %[a2]\n\t"  \
    "ldrsb %[w], [%[ws]" second "\n\t" \
    "mla %[b0], r4, %[w], %[b0]\n\t"  \
    "mla %[b1], r5, %[w], %[b1]\n\t"  \
    "mla %[b2], r6, %[w], %[b2]\n\t"

PILLION_INLINE void dot_pair(const int32_t *x, const int8_t *ws, int32_t inputs, int32_t *sums) {
    int32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], b0 = sums[3], b1 = sums[4], b2 = sums[5], w;
    __asm volatile("1:\n\t" INPUT("], #8", ", #-7]") INPUT(", #-6]", ", #-5]") /**/
                   INPUT(", #-4]", ", #-3]") INPUT(", #-2]", ", #-1]")         /**/
                   "subs %[n], %[n], #4\n\t"
                   "bgt 1b\n\t"
                   : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2),
                     [x] "+r"(x), [ws] "+r"(ws), [n] "+r"(inputs), [w] "=&r"(w)
                   :
                   : "r4", "r5", "r6", "cc", "memory");
    sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = b0, sums[4] = b1, sums[5] = b2;
}

#elif PILLION_SCALAR_ASSEMBLY == 1

/* Eight registers can be multiplied; the sums wait in the others. The product takes the place of the input. */
#define INPUT                     \
    "ldm %[x]!, {r4, r5, r6}\n\t" \
    "ldrsb %[w], [%[ws], %[k]]\n\t" \
    "adds %[k], #2\n\t"           \
    "muls r4, %[w], r4\n\t"       \
    "add %[s0], r4\n\t"           \
    "muls r5, %[w], r5\n\t"       \
    "add %[s1], r5\n\t"           \
    "muls r6, %[w], r6\n\t"       \
    "add %[s2], r6\n\t"

PILLION_APART void dot_channel(const int32_t *x, const int8_t *ws, int32_t inputs, int32_t *sums) {
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], k = 0, w;
    __asm volatile(".syntax unified\n"
                   "1:\n\t" INPUT INPUT INPUT INPUT /**/
                   "cmp %[k], %[end]\n\t"
                   "blt 1b\n\t"
                   : [s0] "+&h"(s0), [s1] "+&h"(s1), [s2] "+&h"(s2), [x] "+&l"(x), [k] "+&l"(k), [w] "=&l"(w)
                   : [ws] "l"(ws), [end] "h"(2 * inputs)
                   : "r4", "r5", "r6", "cc", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2;
}

PILLION_INLINE void dot_pair(const int32_t *x, const int8_t *ws, int32_t inputs, int32_t *sums) {
    dot_channel(x, ws, inputs, sums);
    dot_channel(x, ws + 1, inputs, sums + PILLION_SCALAR_PIXELS);
}

#else

PILLION_INLINE void dot_pair(const int32_t *x, const int8_t *ws, int32_t inputs, int32_t *sums) {
    for (int32_t k = 0; k < inputs; k++, x += PILLION_SCALAR_PIXELS, ws += PILLION_SCALAR_PAIR) {
        for (int32_t i = 0; i < PILLION_SCALAR_PIXELS; i++) {
            sums[i] += x[i] * ws[0];
            sums[PILLION_SCALAR_PIXELS + i] += x[i] * ws[1];
        }
    }
}

#endif

static inline int32_t first_of(int32_t channel, int32_t count) {
    return channel + PILLION_SCALAR_PAIR <= count ? channel : count - PILLION_SCALAR_PAIR;
}

void pillion_scalar_dot(const pillion_scalar_channels *c, const int32_t *block, int8_t *const *y) {
    int8_t *const y0 = y[0], *const y1 = y[1], *const y2 = y[2];
    const pair *constants = (const pair *)(const void *)c->constants;
    const int8_t *weights = c->weights;
    const int32_t inputs = c->inputs, count = c->count;
    for (int32_t channel = 0; channel < count; channel += PILLION_SCALAR_PAIR, constants++) {
        const int32_t at = first_of(channel, count), a = constants->bias[0], b = constants->bias[1];
        int32_t sums[PILLION_SCALAR_PAIR * PILLION_SCALAR_PIXELS] = {a, a, a, b, b, b};
        const pillion_scalar_scale first = constants->scale[0], second = constants->scale[1];
        dot_pair(block, weights, inputs, sums);
        weights += PILLION_SCALAR_PAIR * inputs;
        y0[at] = pillion_scalar_rescale(sums[0], &first);
        y1[at] = pillion_scalar_rescale(sums[1], &first);
        y2[at] = pillion_scalar_rescale(sums[2], &first);
        y0[at + 1] = pillion_scalar_rescale(sums[3], &second);
        y1[at + 1] = pillion_scalar_rescale(sums[4], &second);
        y2[at + 1] = pillion_scalar_rescale(sums[5], &second);
    }
}

void pillion_scalar_dot_1(const pillion_scalar_channels *c, const int8_t *x, int8_t *y) {
    const pair *constants = (const pair *)(const void *)c->constants;
    const int8_t *weights = c->weights;
    for (int32_t channel = 0; channel < c->count; channel += PILLION_SCALAR_PAIR, constants++) {
        const int32_t at = first_of(channel, c->count);
        int32_t a = constants->bias[0], b = constants->bias[1];
        const int8_t *const end = x + c->inputs;
        for (const int8_t *k = x; k < end; k += 4, weights += 4 * PILLION_SCALAR_PAIR) {
            a += k[0] * weights[0] + k[1] * weights[2] + k[2] * weights[4] + k[3] * weights[6];
            b += k[0] * weights[1] + k[1] * weights[3] + k[2] * weights[5] + k[3] * weights[7];
        }
        y[at] = pillion_scalar_rescale(a, &constants->scale[0]);
        y[at + 1] = pillion_scalar_rescale(b, &constants->scale[1]);
    }
}

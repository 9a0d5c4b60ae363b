/* SPDX-License-Identifier: Apache-2.0
 * Elements side by side, normalized one by one in eight instructions, for kernels that say before what an `element` and a `result` is,
 * and how LOAD brings one and STORE rounds it off: SMMLAR adds the offset of a channel to the upper half of the product with its factor. */
#include "pillion/normalize.h"

#define ONE(load)                       \
    LOAD load                             \
    "mla %[t], %[t], %[by], %[start]\n\t" \
    "smmlar %[t], %[t], %[f], %[o]\n\t" \
    "asr %[t], %[t], %[places]\n\t"     \
    STORE

#define OF_CHANNEL "ldr %[f], [%[fs]], #4\n\tldr %[o], [%[os]], #4\n\t"
#define EACH(code)                                                                                                   \
    __asm volatile(code                                                                                              \
                   : [x] "+&r"(x), [y] "+&r"(y), [fs] "+&r"(factors), [os] "+&r"(offsets), [t] "=&r"(t), [f] "=&r"(f),   \
                     [o] "=&r"(o)                                                                                    \
                   : [by] "r"(by.factor), [start] "r"(by.start), [places] "r"(places)                                \
                   : "memory")
#define ALIKE(code)                                                                                          \
    __asm volatile(code                                                                                      \
                   : [x] "+&r"(x), [y] "+&r"(y), [t] "=&r"(t)                                                  \
                   : [by] "r"(by.factor), [start] "r"(by.start), [places] "r"(places), [f] "r"(f), [o] "r"(o) \
                   : "memory")

/* Elements side by side, by factors and offsets of their own. */
static void each(pillion_standard by, int32_t places, const int32_t *factors, const int32_t *offsets, int32_t count,
                 const element *x, result *y) {
    int32_t t, f, o;
    for (; count >= 4; count -= 4) {
        EACH(ONE(OF_CHANNEL) ONE(OF_CHANNEL) ONE(OF_CHANNEL) ONE(OF_CHANNEL));
    }
    for (; count > 0; count--) {
        EACH(ONE(OF_CHANNEL));
    }
}

/* By one factor and one offset. */
static void alike(pillion_standard by, int32_t places, int32_t f, int32_t o, int32_t count, const element *x, result *y) {
    int32_t t;
    for (; count >= 4; count -= 4) {
        ALIKE(ONE("") ONE("") ONE("") ONE(""));
    }
    for (; count > 0; count--) {
        ALIKE(ONE(""));
    }
}

/* A row that has one group, by what its sums have found. */
static void one_group(const pillion_normalize_s8_params *p, pillion_standard by, const element *x, result *y) {
    if (!p->each_channel) {
        alike(by, p->places, *p->factors, *p->offsets, p->elements, x, y);
        return;
    }
    for (int32_t n = 0; n < p->positions; n++, x += p->inner, y += p->inner) {
        each(by, p->places, p->factors, p->offsets, p->inner, x, y);
    }
}

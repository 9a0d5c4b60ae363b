/* SPDX-License-Identifier: Apache-2.0
 * Where the most extreme of some elements stands, for eight results side by side: each lane gathers its elements one after another, and keeps
 * the best with its place. */
#ifndef PILLION_MVE_PLACES_H
#define PILLION_MVE_PLACES_H

#include <stdint.h>

#include "pillion/requantize.h"

enum { PLACES = 8 };

/* The elements of a lane are `step` bytes apart. `condition` is the relation of an element to the best one that it replaces. */
#define EIGHT_PLACES(condition)                                                                                        \
    static void eight(const int8_t *x, int32_t step, int32_t size, const uint16_t *lanes, uint32_t *places) {          \
        int32_t place = 0;                                                                                             \
        __asm__ volatile("vldrh.u16 q0, [%[lanes]]\n"                                                                  \
                         "vldrb.s16 q1, [%[x], q0]\n"                                                                  \
                         "vmov.i32 q2, #0\n"                                                                           \
                         "wls lr, %[others], 2f\n"                                                                     \
                         "1: add %[x], %[step]\n"                                                                      \
                         "adds %[place], #1\n"                                                                         \
                         "vldrb.s16 q3, [%[x], q0]\n"                                                                  \
                         "vptt.s16 " condition ", q3, q1\n"                                                            \
                         "vmovt q1, q3\n"                                                                              \
                         "vdupt.16 q2, %[place]\n"                                                                     \
                         "le lr, 1b\n"                                                                                 \
                         "2: vmovlb.u16 q0, q2\n"                                                                      \
                         "vmovlt.u16 q1, q2\n"                                                                         \
                         "vst20.32 {q0, q1}, [%[places]]\n"                                                            \
                         "vst21.32 {q0, q1}, [%[places]]\n"                                                            \
                         : [x] "+&r"(x), [place] "+&l"(place)                                                            \
                         : [step] "r"(step), [others] "r"(size - 1), [lanes] "r"(lanes), [places] "r"(places)          \
                         : "lr", "q0", "q1", "q2", "q3", "cc", "memory");                                              \
    }

typedef void eight_places(const int8_t *x, int32_t step, int32_t size, const uint16_t *lanes, uint32_t *places);

/* The positions of several results; their first elements are `apart` bytes apart. */
PILLION_INLINE int32_t *pillion_places(const int8_t *x, int32_t results, int32_t apart, int32_t step, int32_t size, int32_t *y,
                                       eight_places *eight) {
    uint16_t lanes[PLACES];
    for (int32_t i = 0; i < PLACES; i++) {
        lanes[i] = (uint16_t)(i * apart);
    }
    for (; results >= PLACES; results -= PLACES, x += PLACES * apart, y += PLACES) {
        eight(x, step, size, lanes, (uint32_t *)y);
    }
    if (results > 0) {
        /* Lanes behind the last result repeat the first one. */
        uint32_t places[PLACES];
        for (int32_t i = results; i < PLACES; i++) {
            lanes[i] = 0;
        }
        eight(x, step, size, lanes, places);
        for (int32_t i = 0; i < results; i++) {
            *y++ = (int32_t)places[i];
        }
    }
    return y;
}

/* Lanes are rows if their elements are adjacent, otherwise neighbours in a row. */
PILLION_INLINE void pillion_all_places(int32_t outer, int32_t size, int32_t inner, const int8_t *x, int32_t *y, eight_places *eight) {
    if (inner == 1) {
        pillion_places(x, outer, size, 1, size, y, eight);
        return;
    }
    for (int32_t row = 0; row < outer; row++, x += size * inner) {
        y = pillion_places(x, inner, 1, inner, size, y, eight);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The first position of the largest or the smallest element along the middle of three axes; `element` is the type. */
#ifndef PILLION_ARG_EXTREME_H
#define PILLION_ARG_EXTREME_H

#include "pillion/kernels.h"
#include "pillion/requantize.h"

PILLION_INLINE void places_of_extremes(const pillion_arg_max_s8_params *p, const element *x, int32_t is_maximum, int32_t *y) {
    for (int32_t row = 0; row < p->outer; row++, x += p->size * p->inner) {
        for (int32_t column = 0; column < p->inner; column++) {
            const element *at = x + column;
            int32_t best = *at, place = 0;
            for (int32_t i = 1; i < p->size; i++) {
                at += p->inner;
                if (is_maximum ? *at > best : *at < best) {
                    best = *at, place = i;
                }
            }
            *y++ = place;
        }
    }
}

#endif

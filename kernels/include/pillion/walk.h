/* SPDX-License-Identifier: Apache-2.0
 * Nested loops, as many as the compiler says: over a tensor in any order, or over some of its axes. */
#ifndef PILLION_WALK_H
#define PILLION_WALK_H

#include <stdint.h>

enum { PILLION_MAX_AXES = 8 };

/* Goes on to the next element, the last axis fastest, and answers how far that is; after the last one, back to the first.
 * `at` holds the place, zeros to begin with; `step` is the way from one index of an axis to the next. */
static inline int32_t pillion_walk(int32_t axes, const int32_t *extent, const int32_t *step, int32_t *at) {
    int32_t moved = 0;
    for (int32_t axis = axes - 1; axis >= 0; axis--) {
        moved += step[axis];
        if (++at[axis] < extent[axis]) {
            return moved;
        }
        at[axis] = 0;
        moved -= extent[axis] * step[axis];
    }
    return moved;
}

/* The last of some axes, for a loop of its own: how often, how far in x and in y, and the number of axes around it. An axis
 * without places, which only a damaged program has, stays among the others, where it ends. */
typedef struct {
    int32_t extent, x_step, y_step, outer_axes;
} pillion_last_axis;

static inline pillion_last_axis pillion_last_axis_of(int32_t axes, const int32_t *extent, const int32_t *x_step,
                                                     const int32_t *y_step) {
    const int32_t last = axes - 1;
    const pillion_last_axis none = {1, 0, 0, axes};
    return axes <= 0 || extent[last] <= 0 ? none : (pillion_last_axis){extent[last], x_step[last], y_step[last], last};
}

#endif

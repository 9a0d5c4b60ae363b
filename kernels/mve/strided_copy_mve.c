/* SPDX-License-Identifier: Apache-2.0
 * Copies along strides. Rows of elements of 8 or 16 bits that lie side by side in x or in y are moved by vectors: one side is a
 * run, the other a run too, or a scattering store or gathering load with offsets of 8 bits (16 bytes at a time) or 16 bits (8 elements). */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "pillion/walk.h"

#define MOST_STEP_8 (255 / 15)
#define MOST_STEP_16 (65535 / 7)

/* `count` elements one by one between a run and places `step` bytes apart; `lane` is 8 or 16, `vector` the lanes of a vector, 2^log,
 * which are `run` bytes of elements of `size` (b or h). */
#define OFFSETS(lane)                          \
    "movs r4, #0\n"                            \
    "vidup.u" lane " q1, r4, #1\n"             \
    "vmul.i" lane " q1, q1, %3\n"

#define SPREAD(name, lane, size, run, log)                                                             \
    static void name(const uint8_t *from, uint8_t *to, int32_t step, int32_t count) {                  \
        __asm__ volatile(OFFSETS(lane) "wlstp." lane " lr, %2, 2f\n"                                   \
                         "1: vldr" size ".u" lane " q0, [%0], #" run "\n"                              \
                         "vstr" size "." lane " q0, [%1, q1]\n"                                        \
                         "add %1, %1, %3, lsl #" log "\n"                                             \
                         "letp lr, 1b\n"                                                               \
                         "2:\n"                                                                        \
                         : "+&l"(from), "+&r"(to)                                                        \
                         : "r"(count), "r"(step)                                                           \
                         : "r4", "lr", "q0", "q1", "cc", "memory");                                    \
    }

#define COLLECT(name, lane, size, run, log)                                                            \
    static void name(const uint8_t *from, uint8_t *to, int32_t step, int32_t count) {                  \
        __asm__ volatile(OFFSETS(lane) "wlstp." lane " lr, %2, 2f\n"                                   \
                         "1: vldr" size ".u" lane " q0, [%0, q1]\n"                                    \
                         "add %0, %0, %3, lsl #" log "\n"                                             \
                         "vstr" size "." lane " q0, [%1], #" run "\n"                                  \
                         "letp lr, 1b\n"                                                               \
                         "2:\n"                                                                        \
                         : "+&r"(from), "+&l"(to)                                                        \
                         : "r"(count), "r"(step)                                                           \
                         : "r4", "lr", "q0", "q1", "cc", "memory");                                    \
    }

SPREAD(spread_8, "8", "b", "16", "4")
SPREAD(spread_16, "16", "b", "8", "3")
SPREAD(spread_halves, "16", "h", "16", "3")
COLLECT(collect_8, "8", "b", "16", "4")
COLLECT(collect_16, "16", "b", "8", "3")
COLLECT(collect_halves, "16", "h", "16", "3")

/* Runs of at most 16 bytes, one a row: at least one row. */
static void copy_short_runs(const uint8_t *from, uint8_t *to, int32_t bytes, const pillion_last_axis *rows) {
    __asm__ volatile("vctp.8 %2\n"
                     "dls lr, %3\n"
                     "1: vpstt\n"
                     "vldrbt.u8 q0, [%0]\n"
                     "vstrbt.8 q0, [%1]\n"
                     "add %0, %4\n"
                     "add %1, %5\n"
                     "le lr, 1b\n"
                     : "+&r"(from), "+&r"(to)
                     : "r"(bytes), "r"(rows->extent), "r"(rows->x_step), "r"(rows->y_step)
                     : "lr", "q0", "cc", "memory");
}

static void copy_elements(const pillion_strided_copy_mve_params *p, const uint8_t *from, uint8_t *to) {
    const int32_t x_step = p->x_step, y_step = p->y_step, bytes = p->element_bytes;
    if (bytes == 1) {
        for (int32_t i = 0; i < p->count; i++, from += x_step, to += y_step) {
            *to = *from;
        }
        return;
    }
    for (int32_t i = 0; i < p->count; i++, from += x_step, to += y_step) {
        for (int32_t b = 0; b < bytes; b++) {
            to[b] = from[b];
        }
    }
}

static void copy_row(const pillion_strided_copy_mve_params *p, const uint8_t *from, uint8_t *to) {
    const int32_t x_step = p->x_step, y_step = p->y_step, count = p->count, bytes = p->element_bytes;
    if (bytes > 2 || (x_step != bytes && y_step != bytes)) {
        copy_elements(p, from, to);
    } else if (x_step == y_step) {
        pillion_mve_copy((int8_t *)to, (const int8_t *)from, count * bytes);
    } else if (x_step == bytes && y_step > 0 && y_step <= MOST_STEP_16) {
        (bytes == 2 ? spread_halves : y_step <= MOST_STEP_8 ? spread_8 : spread_16)(from, to, y_step, count);
    } else if (y_step == bytes && x_step > 0 && x_step <= MOST_STEP_16) {
        (bytes == 2 ? collect_halves : x_step <= MOST_STEP_8 ? collect_8 : collect_16)(from, to, x_step, count);
    } else {
        copy_elements(p, from, to);
    }
}

void pillion_strided_copy_mve(const pillion_strided_copy_mve_params *p, const void *x, void *y, void *scratch) {
    (void)scratch;
    const uint8_t *from = (const uint8_t *)x + p->x_offset;
    uint8_t *to = (uint8_t *)y + p->y_offset;
    int32_t from_at[PILLION_MAX_AXES] = {0}, to_at[PILLION_MAX_AXES] = {0};
    const pillion_last_axis last = pillion_last_axis_of(p->axes, p->extent, p->x_row_step, p->y_row_step);
    const int32_t has_short_runs = p->x_step == 1 && p->y_step == 1 && p->count <= 16;
    for (int32_t row = 0; row < p->rows; row += last.extent) {
        if (has_short_runs) {
            copy_short_runs(from, to, p->count, &last);
        } else {
            for (int32_t i = 0; i < last.extent; i++) {
                copy_row(p, from + i * last.x_step, to + i * last.y_step);
            }
        }
        from += pillion_walk(last.outer_axes, p->extent, p->x_row_step, from_at);
        to += pillion_walk(last.outer_axes, p->extent, p->y_row_step, to_at);
    }
}

#endif

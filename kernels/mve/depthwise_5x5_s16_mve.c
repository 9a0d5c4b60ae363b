/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 5x5 of 16-bit inputs, stride 1 or 2, one channel at a time.
 *
 * The padded channel lies in scratch in tiles of 32 columns, row by row. A vector is eight columns of a row, of which the kernel's row sees
 * five: the other lanes of the weights are zero. A round is a column of four outputs: every row that they see is loaded once, for all of them.
 * All of a channel is read before its outputs are written: y may be x.
 * Registers: r0 r2 r4 r6 sums, r1 row of a tile, r9 column of y, r10 to the next one, r8 bias, r11
 * factor, r12 least result, lr columns left; q0-q4 kernel, q5 a row, q6 sums, q7 where four outputs go. On the stack: d8 to d15, the state. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "bytes.h"
#include "halves.h"
#include "pillion/assembly.h"

#define TILE_ROW "64" /* bytes */

/* The layout of the plane. Steps are in bytes of x and of y. */
typedef struct {
    int32_t x_row, x_column;
    int32_t rows, tiles;                  /* of the image that the windows see; of a channel */
    int32_t stride, y_column, groups;
    int32_t lanes[4];                     /* offsets of four outputs below each other */
    int32_t places[];                     /* of each tile: offsets of its part of the image, in x and in scratch, and the columns of it; of each
                                             group of four rows of its outputs: offsets of the first window and output, columns of outputs */
} layout_16;

typedef struct {
    const int16_t *plane; /* 0 */
    int16_t *y;
    const int8_t *kernel; /* 8 */
    const int32_t *numbers;
    const int32_t *places; /* 16 */
    int32_t groups;
    int32_t y_column; /* 24 */
    const int32_t *lanes;
    int32_t least; /* 32 */
} state;
PILLION_FIELDS_AT(state, 0, plane, y, kernel, numbers, places, groups, y_column, lanes, least);

#define BEGIN(sum, weights) "vmladav.s16 " sum ", q5, " weights "\n"
#define ADD(sum, weights) "vmladava.s16 " sum ", q5, " weights "\n"
#define ROW(products) "vldrh.u16 q5, [r1], #" TILE_ROW "\n" products
/* From below the last row to the next column of outputs. */
#define NEXT_COLUMN(rows, stride) "subw r1, r1, #" #rows " * " TILE_ROW " - 2 * " #stride "\n"

#define ALL_ROWS                                                                 \
    ROW(BEGIN("r0", "q0"))                                                       \
    ROW(ADD("r0", "q1") BEGIN("r2", "q0"))                                       \
    ROW(ADD("r0", "q2") ADD("r2", "q1") BEGIN("r4", "q0"))                       \
    ROW(ADD("r0", "q3") ADD("r2", "q2") ADD("r4", "q1") BEGIN("r6", "q0"))       \
    ROW(ADD("r0", "q4") ADD("r2", "q3") ADD("r4", "q2") ADD("r6", "q1"))         \
    ROW(ADD("r2", "q4") ADD("r4", "q3") ADD("r6", "q2"))                         \
    ROW(ADD("r4", "q4") ADD("r6", "q3"))                                         \
    ROW(ADD("r6", "q4")) NEXT_COLUMN(8, 1)
#define EVERY_SECOND_ROW                                                         \
    ROW(BEGIN("r0", "q0"))                                                       \
    ROW(ADD("r0", "q1"))                                                         \
    ROW(ADD("r0", "q2") BEGIN("r2", "q0"))                                       \
    ROW(ADD("r0", "q3") ADD("r2", "q1"))                                         \
    ROW(ADD("r0", "q4") ADD("r2", "q2") BEGIN("r4", "q0"))                       \
    ROW(ADD("r2", "q3") ADD("r4", "q1"))                                         \
    ROW(ADD("r2", "q4") ADD("r4", "q2") BEGIN("r6", "q0"))                       \
    ROW(ADD("r4", "q3") ADD("r6", "q1"))                                         \
    ROW(ADD("r4", "q4") ADD("r6", "q2"))                                         \
    ROW(ADD("r6", "q3"))                                                         \
    ROW(ADD("r6", "q4")) NEXT_COLUMN(11, 2)

/* All outputs of a channel. */
#define OUTPUTS(name, products)                                                  \
    PILLION_NAKED static void name(PILLION_UNUSED state *s) {                    \
        __asm__ volatile(                                                        \
            "push {r0, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"             \
            "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"                     \
            "ldrd r4, r1, [r0, #8]\n"                                            \
            "ldrd r8, r11, [r1]\n"                                               \
            "ldrd r10, r1, [r0, #24]\n"                                          \
            "ldr r12, [r0, #32]\n"                                               \
            "vldrw.u32 q7, [r1]\n"                                               \
            "movw r1, #0x3ff\n"                                                  \
            "vmsr p0, r1\n"                                                      \
            "vpstttt\n"                                                          \
            "vldrbt.s16 q0, [r4]\n"                                              \
            "vldrbt.s16 q1, [r4, #5]\n"                                          \
            "vldrbt.s16 q2, [r4, #10]\n"                                         \
            "vldrbt.s16 q3, [r4, #15]\n"                                         \
            "vpst\n"                                                             \
            "vldrbt.s16 q4, [r4, #20]\n"                                         \
            "1:\n"                                                               \
            "ldr r0, [sp, #64]\n"                                                \
            "ldrd r1, r2, [r0]\n"                                                \
            "ldr r4, [r0, #16]\n"                                                \
            "ldm r4!, {r3, r9, lr}\n"                                            \
            "str r4, [r0, #16]\n"                                                \
            "add r1, r3\n"                                                       \
            "add r9, r2\n"                                                       \
            "dls lr, lr\n"                                                       \
            "2:\n"                                                               \
            products                                                             \
            "vmov q6[2], q6[0], r0, r4\n"                                        \
            "vmov q6[3], q6[1], r2, r6\n"                                        \
            "vdup.16 q5, r12\n"                                                  \
            "vadd.i32 q6, q6, r8\n"                                              \
            "vqrdmulh.s32 q6, q6, r11\n"                                         \
            "vqmovnb.s32 q6, q6\n"                                               \
            "vmax.s16 q6, q6, q5\n"                                              \
            "vstrh.32 q6, [r9, q7]\n"                                            \
            "add r9, r10\n"                                                      \
            "le lr, 2b\n"                                                        \
            "ldr r0, [sp, #64]\n"                                                \
            "ldr r1, [r0, #20]\n"                                                \
            "subs r1, #1\n"                                                      \
            "str r1, [r0, #20]\n"                                                \
            "bne 1b\n"                                                           \
            "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n"                      \
            "pop {r0, r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");            \
    }
OUTPUTS(all_rows, ALL_ROWS)
OUTPUTS(every_second_row, EVERY_SECOND_ROW)

/* The pixels of a tile that windows see, from `x` on, to their places in it. */
static void fill_tile(const layout_16 *p, const int8_t *x, int8_t *to, int32_t columns) {
    const uint16x8_t lanes = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)p->x_column);
    const int8_t *from;
    int8_t *at;
    int32_t rows = p->rows;
    __asm__ volatile("1:\n"
                     "mov %[from], %[x]\n"
                     "mov %[at], %[to]\n"
                     "wlstp.16 lr, %[columns], 3f\n"
                     "2:\n"
                     "vldrh.u16 q0, [%[from], %q[lanes]]\n"
                     "add %[from], %[from], %[step], lsl #3\n"
                     "vstrh.16 q0, [%[at]], #16\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "add %[x], %[x_row]\n"
                     "add %[to], #" TILE_ROW "\n"
                     "subs %[rows], #1\n"
                     "bne 1b\n"
                     : [x] "+&r"(x), [to] "+&r"(to), [rows] "+&r"(rows), [from] "=&r"(from), [at] "=&l"(at)
                     : [x_row] "r"(p->x_row), [columns] "r"(columns), [step] "r"(p->x_column), [lanes] "w"(lanes)
                     : "lr", "q0", "cc", "memory");
}

void pillion_depthwise_5x5_s16_mve(const pillion_depthwise_5x5_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const layout_16 *const at = (const layout_16 *)(const void *)p->layout;
    const int8_t *image = (const int8_t *)x;
    int16_t *out = y;
    pillion_mve_fill(scratch, 0, p->plane_bytes);
    for (int32_t n = 0; n < p->images; n++, image += p->image_bytes, out += p->output_bytes >> 1) {
        state s = {scratch, out, p->kernels, p->numbers, at->places, at->groups, at->y_column, at->lanes, p->low};
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t *places = at->places;
            for (int32_t tile = 0; tile < at->tiles; tile++, places += 3) {
                fill_tile(at, image + 2 * c + places[0], (int8_t *)scratch + places[1], places[2]);
            }
            for (int32_t filters = p->filters; filters > 0; filters--, s.y++, s.kernel += 25, s.numbers += 2) {
                s.places = places, s.groups = at->groups;
                (at->stride == 1 ? all_rows : every_second_row)(&s);
            }
        }
    }
    pillion_mve_clamp_16(y, p->images * p->output_bytes >> 1, INT16_MIN, p->high);
}

#endif

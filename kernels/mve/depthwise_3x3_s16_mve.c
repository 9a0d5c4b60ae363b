/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by 3x3 of 16-bit inputs, one channel at a time, at stride 1 or 2 both ways.
 *
 * The rows under some rows of outputs are gathered into a plane, with their padding; at stride 2 the even columns of each row, then the odd
 * ones. Lanes are four columns of outputs; every row of the plane is loaded once for the outputs above, at and below it.
 * Registers: r0 plane, r1 y, r2 to r10 the kernel, r11 and r12 to the next rows of y and plane, lr rounds left; q0 q1 q2 sums, q3 a row, q4
 * zeros, q5 bias, q6 factor, q7 where four outputs go. The state is on the stack. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "bytes.h"
#include "halves.h"
#include "pillion/assembly.h"

typedef pillion_depthwise_3x3_s16_mve_params params;

typedef struct {
    const int32_t *numbers;
    const int8_t *kernel;
    const int16_t *plane; /* 8 */
    int16_t *y;
    int32_t y_pitch, plane_pitch; /* 16 */
    int32_t left, pixel_bytes;    /* 24: columns of outputs left; of y */
    int32_t rounds, rest;         /* 32: of rows of outputs */
    int32_t lanes[4];             /* 40 */
} state;
PILLION_FIELDS_AT(state, 0, numbers, kernel, plane, y, y_pitch, plane_pitch, left, pixel_bytes, rounds, rest, lanes);

#define ADD(sum, weight) "vmla.s32 " sum ", q3, " weight "\n"
#define BEGIN(sum) "vmov " sum ", q5\n"
/* A row of the plane; `use` has the weights of a column that meet it for the outputs below, at and above it. */
#define ROW(use)                                   \
    "vldrh.s32 q3, [r0]\n" use("r2", "r5", "r8")   \
    "vldrh.s32 q3, [r0, #2]\n" use("r3", "r6", "r9") \
    "vldrh.s32 q3, [r0, #4]\n" use("r4", "r7", "r10") \
    "add r0, r12\n"
#define SPLIT_ROW(use)                             \
    "vldrh.s32 q3, [r0]\n" use("r2", "r5", "r8")   \
    "vldrh.s32 q3, [r0, #2]\n" use("r4", "r7", "r10") \
    "add r0, r12\n"                                \
    "vldrh.s32 q3, [r0]\n" use("r3", "r6", "r9")   \
    "add r0, r12\n"
#define RECTIFY(sum) "vmax.s32 " sum ", " sum ", q4\n"
#define NO_MORE(sum)
#define FINISH(sum, more)                    \
    "vqrdmulh.s32 " sum ", " sum ", q6\n" more(sum) \
    "vqmovnb.s32 " sum ", " sum "\n"         \
    "vstrh.32 " sum ", [r1, q7]\n"           \
    "add r1, r11\n"

#define ABOVE_ALL(top, middle, bottom) ADD("q0", top)
#define FIRST(top, middle, bottom) ADD("q0", middle) ADD("q1", top)
#define NEXT_A(top, middle, bottom) ADD("q0", bottom) ADD("q1", middle) ADD("q2", top)
#define NEXT_B(top, middle, bottom) ADD("q1", bottom) ADD("q2", middle) ADD("q0", top)
#define NEXT_C(top, middle, bottom) ADD("q2", bottom) ADD("q0", middle) ADD("q1", top)
#define STEP_A(more) BEGIN("q2") ROW(NEXT_A) FINISH("q0", more)
#define STEP_B(more) BEGIN("q0") ROW(NEXT_B) FINISH("q1", more)
#define STEP_C(more) BEGIN("q1") ROW(NEXT_C) FINISH("q2", more)

#define MIDDLE_A(top, middle, bottom) ADD("q0", middle)
#define BETWEEN_A(top, middle, bottom) ADD("q0", bottom) ADD("q1", top)
#define MIDDLE_B(top, middle, bottom) ADD("q1", middle)
#define BETWEEN_B(top, middle, bottom) ADD("q1", bottom) ADD("q0", top)
#define SPLIT_A(more) SPLIT_ROW(MIDDLE_A) BEGIN("q1") SPLIT_ROW(BETWEEN_A) FINISH("q0", more)
#define SPLIT_B(more) SPLIT_ROW(MIDDLE_B) BEGIN("q0") SPLIT_ROW(BETWEEN_B) FINISH("q1", more)

/* All outputs of a channel: rows above the first outputs, rounds of rows of outputs, and the rest, of which lr says how many. */
#define OUTPUTS(name, above, round, rest)                              \
    PILLION_NAKED static void name(PILLION_UNUSED state *s) {          \
        __asm__ volatile(                                              \
            "push {r0, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"   \
            "vpush {d8-d15}\n"                                         \
            "ldrd r1, r11, [r0]\n"                                     \
            "ldrd r2, r3, [r1]\n"                                      \
            "vdup.32 q5, r2\n"                                         \
            "vdup.32 q6, r3\n"                                         \
            "vmov.i32 q4, #0\n"                                        \
            "add r12, r0, #40\n"                                       \
            "vldrw.u32 q7, [r12]\n"                                    \
            "ldrsb r2, [r11]\n"                                        \
            "ldrsb r3, [r11, #1]\n"                                    \
            "ldrsb r4, [r11, #2]\n"                                    \
            "ldrsb r5, [r11, #3]\n"                                    \
            "ldrsb r6, [r11, #4]\n"                                    \
            "ldrsb r7, [r11, #5]\n"                                    \
            "ldrsb r8, [r11, #6]\n"                                    \
            "ldrsb r9, [r11, #7]\n"                                    \
            "ldrsb r10, [r11, #8]\n"                                   \
            "1:\n"                                                     \
            "ldr lr, [sp, #64]\n"                                      \
            "ldrd r0, r1, [lr, #8]\n"                                  \
            "ldrd r11, r12, [lr, #16]\n"                               \
            "ldr lr, [lr, #32]\n"                                      \
            BEGIN("q0") above                                          \
            "wls lr, lr, 3f\n"                                         \
            "2:\n" round                                               \
            "le lr, 2b\n"                                              \
            "3:\n"                                                     \
            "ldr lr, [sp, #64]\n"                                      \
            "ldr lr, [lr, #36]\n"                                      \
            "cmp lr, #1\n"                                             \
            "blt 4f\n" rest                                            \
            "4:\n"                                                     \
            "ldr lr, [sp, #64]\n"                                      \
            "ldrd r0, r1, [lr, #24]\n"                                 \
            "subs r0, #4\n"                                            \
            "ble 5f\n"                                                 \
            "str r0, [lr, #24]\n"                                      \
            "cmp r0, #4\n" /* the last four columns, some of them again */ \
            "it gt\n"                                                  \
            "movgt r0, #4\n"                                           \
            "ldrd r11, r12, [lr, #8]\n"                                \
            "add r11, r11, r0, lsl #1\n"                               \
            "mla r12, r0, r1, r12\n"                                   \
            "strd r11, r12, [lr, #8]\n"                                \
            "b 1b\n"                                                   \
            "5:\n"                                                     \
            "vpop {d8-d15}\n"                                          \
            "pop {r0, r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");  \
    }

#define ALL_ROWS(name, more) \
    OUTPUTS(name, ROW(ABOVE_ALL) BEGIN("q1") ROW(FIRST), STEP_A(more) STEP_B(more) STEP_C(more), STEP_A(more) "beq 4f\n" STEP_B(more))
#define HALF_ROWS(name, more) OUTPUTS(name, SPLIT_ROW(ABOVE_ALL), SPLIT_A(more) SPLIT_B(more), SPLIT_A(more))
ALL_ROWS(all_rows, NO_MORE)
ALL_ROWS(rectified_all_rows, RECTIFY)
HALF_ROWS(half_rows, NO_MORE)
HALF_ROWS(rectified_half_rows, RECTIFY)

static int32_t is_rectified(const params *p) {
    return p->low == 0 && p->high == INT16_MAX;
}

/* Columns of a channel, `step` bytes apart: `rows` rows of `count` of them, from a pixel on. */
typedef struct {
    int32_t pixel, rows, count, step, row_bytes, pitch, to;
} columns;

static inline void gather(const int16_t *from, const columns *c, int16_t *to, uint16x8_t lanes) {
    int32_t rows = c->rows;
    const int8_t *x;
    int8_t *at;
    __asm__ volatile("1:\n"
                     "mov %[x], %[from]\n"
                     "mov %[at], %[to]\n"
                     "wlstp.16 lr, %[count], 3f\n"
                     "2:\n"
                     "vldrh.u16 q0, [%[x], %q[lanes]]\n"
                     "add %[x], %[x], %[step], lsl #3\n"
                     "vstrh.16 q0, [%[at]], #16\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "add %[from], %[row_bytes]\n"
                     "add %[to], %[pitch]\n"
                     "subs %[rows], #1\n"
                     "bne 1b\n"
                     : [from] "+&r"(from), [to] "+&r"(to), [rows] "+&r"(rows), [x] "=&r"(x), [at] "=&l"(at)
                     : [row_bytes] "r"(c->row_bytes), [pitch] "r"(c->pitch), [count] "r"(c->count), [step] "r"(c->step),
                       [lanes] "w"(lanes)
                     : "lr", "q0", "cc", "memory");
}

/* The columns of every stride-th column of the plane from `phase` on, whose first row is `top` in the image. */
static columns columns_of(const params *p, int32_t top, int32_t rows, int32_t phase) {
    const int32_t above = top < 0 ? -top : 0, s = p->stride;
    const int32_t skipped = p->pad_left > phase ? (p->pad_left - phase + s - 1) / s : 0;
    const int32_t column = phase + skipped * s - p->pad_left, seen = (p->in_w - column + s - 1) / s;
    const int32_t room = p->out_w + (s == 1 ? 2 : 1 - phase) - skipped, count = seen < room ? seen : room;
    const int32_t inside = count > 0 ? (p->in_h - top < rows ? p->in_h - top : rows) - above : 0;
    const columns c = {(top + above) * p->x_row + column * p->x_column, inside, count, 2 * s * p->x_column,
                       2 * p->x_row, s * p->pitch, ((above * s + phase) * p->pitch >> 1) + skipped};
    return c;
}

/* All channels of some rows of outputs from `row` on. */
static void band(const params *p, const int16_t *image, int16_t *y, int32_t row, int32_t rows, int16_t *plane) {
    const int32_t s = p->stride, filters = p->filters, pixel = 2 * p->y_column, unit = s == 1 ? 3 : 2;
    const int32_t top = row * s - p->pad_top, plane_rows = (rows - 1) * s + 3, out_w = p->out_w;
    const columns phases[2] = {columns_of(p, top, plane_rows, 0), columns_of(p, top, plane_rows, 1)};
    const uint16x8_t lanes = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)phases[0].step);
    state now = {p->numbers, p->kernels, plane, y, 2 * p->y_row, p->pitch, out_w, pixel, rows / unit, rows % unit,
                 {0, pixel, 2 * pixel, 3 * pixel}};
    void (*const outputs)(state *) = is_rectified(p) ? (s == 1 ? rectified_all_rows : rectified_half_rows)
                                                     : (s == 1 ? all_rows : half_rows);
    pillion_mve_fill((int8_t *)plane, 0, plane_rows * s * p->pitch);
    for (int32_t c = p->channels; c > 0; c--, image++) {
        for (int32_t phase = 0; phase < s; phase++) {
            if (phases[phase].rows > 0) {
                gather(image + phases[phase].pixel, &phases[phase], plane + phases[phase].to, lanes);
            }
        }
        for (int32_t f = filters; f > 0; f--, now.numbers += 2, now.kernel += 9) {
            now.plane = plane, now.y = y++, now.left = out_w;
            outputs(&now);
        }
    }
}

void pillion_depthwise_3x3_s16_mve(const params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t results = p->out_h * p->out_w * p->channels * p->filters;
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t row = 0; row < p->out_h; row += p->band) {
            const int32_t left = p->out_h - row;
            band(p, x + n * p->in_h * p->in_w * p->channels, y + n * results + row * p->y_row, row,
                 left < p->band ? left : p->band, scratch);
        }
    }
    if (!is_rectified(p)) {
        pillion_mve_clamp_16(y, p->batch * results, p->low, p->high);
    }
}

#endif

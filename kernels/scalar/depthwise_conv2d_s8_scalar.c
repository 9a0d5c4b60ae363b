/* SPDX-License-Identifier: Apache-2.0
 * One channel at a time, and four outputs of a row. The rows of the image that a row of outputs looks at lie widened, with
 * their padding, in a ring. */
#include "pillion/assembly.h"
#include "pillion/scalar.h"
#include "rescale.h"

enum { OUTPUTS = 4 };

typedef struct {
    int32_t bias;
    pillion_scalar_scale scale;
} channel_constants;

/* Rows of the image, counted from the first padding row. Padding at the sides of a row stays. */
typedef struct {
    int32_t *begin, *end; /* of all slots */
    int32_t width, left, inside; /* numbers to a slot; and how many of them are padding, and image */
    int32_t slots;
    int32_t next; /* the first row that was not put in yet, and its slot */
    int32_t *next_slot;
} ring;

PILLION_INLINE int32_t *wrapped(int32_t *slot, const ring *r) {
    while (slot >= r->end) {
        slot -= r->end - r->begin;
    }
    return slot;
}

/* Elements `step` bytes apart. */
static void widen(int32_t *to, const int8_t *x, int32_t step, int32_t count) {
    const int32_t three = 3 * step;
    for (; count >= 4; count -= 4, x += 4 * step, to += 4) {
        const int32_t x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[three];
        to[0] = x0, to[1] = x1, to[2] = x2, to[3] = x3;
    }
    for (; count > 0; count--, x += step) {
        *to++ = *x;
    }
}

static void fill(int32_t *to, int32_t count, int32_t number) {
    for (int32_t *const end = to + count; to < end;) {
        *to++ = number;
    }
}

static ring empty_ring(const pillion_depthwise_conv2d_s8_scalar_params *p, int32_t *begin) {
    const int32_t outputs = p->out_w < OUTPUTS ? OUTPUTS : p->out_w;
    ring r = {.begin = begin,
              .width = (outputs - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1,
              .slots = (p->kernel_h - 1) * p->dilation_h + 1};
    r.end = begin + r.slots * r.width;
    r.left = p->pad_left < r.width ? p->pad_left : r.width;
    r.inside = p->in_w < r.width - r.left ? p->in_w : r.width - r.left;
    fill(begin, r.slots * r.width, p->in_zp);
    return r;
}

static void fill_ring(const pillion_depthwise_conv2d_s8_scalar_params *p, const int8_t *x, ring *r, int32_t end) {
    for (; r->next < end; r->next++) {
        /* A stride longer than the window skips rows; nothing reads their places. */
        if (r->next >= end - r->slots) {
            const int32_t row = r->next - p->pad_top;
            if (row >= 0 && row < p->in_h) {
                widen(r->next_slot + r->left, x + row * p->x_row_step, p->x_step, r->inside);
            } else {
                fill(r->next_slot + r->left, r->inside, p->in_zp);
            }
        }
        r->next_slot = wrapped(r->next_slot + r->width, r);
    }
}

#if PILLION_SCALAR_ASSEMBLY == 2
/* A window of 3x3 in three tables: where each row of it begins, and twice its weights, for the sums are wanted twice. */
typedef struct {
    struct {
        const int32_t *row;
        int32_t weights[3];
    } taps[3];
    int32_t round, multiplier, right, step;
    int8_t *y;
    int32_t last, bias; /* the first of the last four outputs; twice the bias */
} window_3x3;

PILLION_FIELDS_AT(window_3x3, 48, round, multiplier, right, step, y, last, bias);

/* r0: the window, which moves on by one row of it. r1: the first of four outputs, r2-r5 their sums. r6-r8: inputs. r9: the row.
 * r10-r12: its weights. The first three products of the first row take the bias along. Eighteen instructions for twelve products. */
#define OUTPUT_OF(sum, x0, x1, x2, begin)           \
    "mla " sum ", " x0 ", r10, " begin "\n\t"       \
    "mla " sum ", " x1 ", r11, " sum "\n\t"         \
    "mla " sum ", " x2 ", r12, " sum "\n\t"
#define ROW_OF(places, s0, s1, s2, s3, second, third, fourth)  \
    "ldm r0!, {r9, r10, r11, r12}\n\t"                         \
    "add r9, r9, r1, lsl #" places "\n\t"                      \
    "ldm r9, {r6, r7, r8}\n\t"                                 \
    OUTPUT_OF("r2", "r6", "r7", "r8", s0) second(s1) third(s2) fourth(s3)
/* One more input for each output. */
#define SECOND_1(sum) "ldr r6, [r9, #12]\n\t" OUTPUT_OF("r3", "r7", "r8", "r6", sum)
#define THIRD_1(sum) "ldr r7, [r9, #16]\n\t" OUTPUT_OF("r4", "r8", "r6", "r7", sum)
#define FOURTH_1(sum) "ldr r8, [r9, #20]\n\t" OUTPUT_OF("r5", "r6", "r7", "r8", sum)
/* Two more. */
#define SECOND_2(sum) "ldrd r6, r7, [r9, #12]\n\t" OUTPUT_OF("r3", "r8", "r6", "r7", sum)
#define THIRD_2(sum) "ldrd r8, r6, [r9, #20]\n\t" OUTPUT_OF("r4", "r7", "r8", "r6", sum)
#define FOURTH_2(sum) "ldrd r7, r8, [r9, #28]\n\t" OUTPUT_OF("r5", "r6", "r7", "r8", sum)
/* As pillion_scalar_rescale, of twice a sum: r6 round, r7 multiplier, r8 right, r9 step, r10 y. */
#define RESCALED(sum, to)                     \
    "mov r11, #0x80000000\n\t"                \
    "add r12, r6, " sum ", asr #31\n\t"       \
    "smlal r11, r12, " sum ", r7\n\t"         \
    "asr r12, r12, r8\n\t"                    \
    "ssat r12, #8, r12\n\t"                   \
    "strb r12, " to "\n\t"
#define ALL_OF(places, second, third, fourth)                                        \
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"                                \
    "movs r1, #0\n"                                                                  \
    "1:\n\t"                                                                         \
    "ldr lr, [r0, #72]\n\t"                                                          \
    ROW_OF(places, "lr", "lr", "lr", "lr", second, third, fourth)                    \
    ROW_OF(places, "r2", "r3", "r4", "r5", second, third, fourth)                    \
    ROW_OF(places, "r2", "r3", "r4", "r5", second, third, fourth)                    \
    "ldm r0, {r6, r7, r8, r9, r10, lr}\n\t"                                          \
    "mla r10, r1, r9, r10\n\t"                                                       \
    RESCALED("r2", "[r10]")                                                          \
    RESCALED("r3", "[r10, r9]")                                                      \
    RESCALED("r4", "[r10, r9, lsl #1]")                                              \
    "add r10, r10, r9, lsl #1\n\t"                                                   \
    RESCALED("r5", "[r10, r9]")                                                      \
    "cmp r1, lr\n\t"                                                                 \
    "beq 2f\n\t"                                                                     \
    "subs r0, #48\n\t"                                                               \
    "adds r1, #4\n\t"                                                                \
    "cmp r1, lr\n\t"                                                                 \
    "it gt\n\t"                                                                      \
    "movgt r1, lr\n\t"                                                               \
    "b 1b\n"                                                                         \
    "2:\n\t"                                                                         \
    "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"

typedef void row_of_3x3(const window_3x3 *window);

static PILLION_NAKED void row_3x3_stride_1(PILLION_UNUSED const window_3x3 *window) {
    __asm volatile(ALL_OF("2", SECOND_1, THIRD_1, FOURTH_1));
}

static PILLION_NAKED void row_3x3_stride_2(PILLION_UNUSED const window_3x3 *window) {
    __asm volatile(ALL_OF("3", SECOND_2, THIRD_2, FOURTH_2));
}

static row_of_3x3 *fixed_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p) {
    if (p->kernel_h != 3 || p->kernel_w != 3 || p->dilation_w != 1) {
        return 0;
    }
    return p->stride_w == 1 ? row_3x3_stride_1 : p->stride_w == 2 ? row_3x3_stride_2 : 0;
}

static void begin_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by, const int8_t *ws,
                      window_3x3 *window) {
    for (int32_t ky = 0; ky < 3; ky++, ws += 3) {
        int32_t *const weights = window->taps[ky].weights;
        weights[0] = 2 * ws[0], weights[1] = 2 * ws[1], weights[2] = 2 * ws[2];
    }
    window->round = by->scale.round, window->multiplier = by->scale.multiplier, window->right = by->scale.right;
    window->step = p->y_step, window->last = p->out_w < OUTPUTS ? 0 : p->out_w - OUTPUTS;
    window->bias = (int32_t)(2u * (uint32_t)by->bias);
}

/* Rows of fewer than four outputs are computed in scratch, and the valid part is copied. */
static void short_row_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p, window_3x3 *window, row_of_3x3 *row, int8_t *y) {
    int8_t made[OUTPUTS];
    window->step = 1, window->y = made;
    row(window);
    for (int32_t i = 0; i < p->out_w; i++) {
        y[i * p->y_step] = made[i];
    }
}

PILLION_INLINE void next_row_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p, window_3x3 *window, row_of_3x3 *row,
                                 const int32_t *const *rows, int8_t *y) {
    window->taps[0].row = rows[0], window->taps[1].row = rows[1], window->taps[2].row = rows[2];
    if (p->out_w < OUTPUTS) {
        short_row_3x3(p, window, row, y);
    } else {
        window->y = y;
        row(window);
    }
}
#else
/* Windows without assembly. */
typedef char window_3x3;
typedef void row_of_3x3(void);

static row_of_3x3 *fixed_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p) {
    (void)p;
    return 0;
}

static void begin_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by, const int8_t *ws,
                      window_3x3 *window) {
    (void)p, (void)by, (void)ws, (void)window;
}

PILLION_INLINE void next_row_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p, window_3x3 *window, row_of_3x3 *row,
                                 const int32_t *const *rows, int8_t *y) {
    (void)p, (void)window, (void)row, (void)rows, (void)y;
}
#endif

/* The weights of one row of the window, for four outputs that are `stride` apart. */
#if PILLION_SCALAR_ASSEMBLY == 1
#define OUTPUT(sum, output)                             \
    "ldr %[t], [%[x], %[stride" #output "]]\n\t"        \
    "muls %[t], %[w], %[t]\n\t"                         \
    "add %[" sum "], %[t]\n\t"

PILLION_INLINE void taps(const int32_t *x, const int8_t *ws, int32_t count, int32_t dilation, int32_t *sums,
                         int32_t stride) {
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], w, t;
    const int32_t step = 4 * dilation;
    __asm volatile(".syntax unified\n"
                   "1:\n\t"
                   "movs %[w], #0\n\t"
                   "ldrsb %[w], [%[ws], %[w]]\n\t"
                   "adds %[ws], #1\n\t" /**/
                   OUTPUT("s0", 0) OUTPUT("s1", 1) OUTPUT("s2", 2) OUTPUT("s3", 3) /**/
                   "add %[x], %[step]\n\t"
                   "cmp %[ws], %[end]\n\t"
                   "bne 1b\n\t"
                   : [s0] "+&h"(s0), [s1] "+&h"(s1), [s2] "+&h"(s2), [s3] "+&h"(s3), [x] "+&l"(x), [ws] "+&l"(ws),
                     [w] "=&l"(w), [t] "=&l"(t)
                   : [end] "l"(ws + count), [step] "l"(step), [stride0] "i"(0), [stride1] "i"(4 * stride),
                     [stride2] "i"(8 * stride), [stride3] "i"(12 * stride)
                   : "cc", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

#define WEIGHT(number)                  \
    "movs %[w], #" number "\n\t"        \
    "ldrsb %[w], [%[ws], %[w]]\n\t"     \
    OUTPUT("s0", 0) OUTPUT("s1", 1) OUTPUT("s2", 2) OUTPUT("s3", 3)
#define ROW(number0, number1, number2)  \
    "ldm %[rows]!, {%[x]}\n\t"          \
    "add %[x], %[at]\n\t"               \
    WEIGHT(number0)                     \
    "adds %[x], #4\n\t"                 \
    WEIGHT(number1)                     \
    "adds %[x], #4\n\t"                 \
    WEIGHT(number2)

/* All of a window of 3x3, the bytes `at` into its rows. */
PILLION_INLINE void taps_3x3(const int32_t *const *rows, const int8_t *ws, int32_t at, int32_t *sums, int32_t stride) {
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], w, t;
    const int32_t *x;
    __asm volatile(".syntax unified\n\t" ROW("0", "1", "2") ROW("3", "4", "5") ROW("6", "7", "8")
                   : [s0] "+&h"(s0), [s1] "+&h"(s1), [s2] "+&h"(s2), [s3] "+&h"(s3), [rows] "+&l"(rows), [x] "=&l"(x),
                     [w] "=&l"(w), [t] "=&l"(t)
                   : [ws] "l"(ws), [at] "l"(at), [stride0] "i"(0), [stride1] "i"(4 * stride), [stride2] "i"(8 * stride),
                     [stride3] "i"(12 * stride)
                   : "cc", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}
#else
#define taps taps_of_any_stride

PILLION_INLINE void taps_3x3(const int32_t *const *rows, const int8_t *ws, int32_t at, int32_t *sums, int32_t stride) {
    (void)rows, (void)ws, (void)at, (void)sums, (void)stride;
}
#endif

PILLION_INLINE void taps_of_any_stride(const int32_t *x, const int8_t *ws, int32_t count, int32_t dilation, int32_t *sums,
                                       int32_t stride) {
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
    for (const int8_t *const end = ws + count; ws < end; x += dilation) {
        const int32_t w = *ws++;
        s0 += x[0] * w;
        s1 += x[stride] * w;
        s2 += x[2 * stride] * w;
        s3 += x[3 * stride] * w;
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/* One row of outputs; the last four of it reach back over ones that are done already. */
typedef enum { STRIDE_1, STRIDE_2, ANY } method;

PILLION_INLINE void row_by(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by,
                           const int32_t *const *rows, const int8_t *ws, int8_t *y, method how) {
    const int32_t out_w = p->out_w, step = p->y_step, columns = p->kernel_w, dilation = p->dilation_w, bias = by->bias;
    const int32_t is_3x3 = PILLION_SCALAR_ASSEMBLY == 1 && how != ANY && columns == 3 && p->kernel_h == 3 && dilation == 1;
    const int32_t stride = how == ANY ? p->stride_w : how == STRIDE_2 ? 2 : 1;
    const int32_t *const *const end = rows + p->kernel_h;
    const pillion_scalar_scale scale = by->scale;
    for (int32_t ox = 0; ox < out_w; ox += OUTPUTS) {
        const int32_t at = ox + OUTPUTS <= out_w || out_w < OUTPUTS ? ox : out_w - OUTPUTS;
        int32_t sums[OUTPUTS] = {bias, bias, bias, bias};
        const int8_t *w = ws;
        if (is_3x3) {
            taps_3x3(rows, ws, 4 * at * stride, sums, stride);
        } else {
            for (const int32_t *const *row = rows; row < end; row++, w += columns) {
                if (how == ANY) {
                    taps_of_any_stride(*row + at * stride, w, columns, dilation, sums, stride);
                } else {
                    taps(*row + at * stride, w, columns, dilation, sums, stride);
                }
            }
        }
        int8_t *to = y + at * step;
        *to = pillion_scalar_rescale(sums[0], &scale);
        if (out_w >= OUTPUTS) {
            to[step] = pillion_scalar_rescale(sums[1], &scale);
            to[2 * step] = pillion_scalar_rescale(sums[2], &scale);
            to[3 * step] = pillion_scalar_rescale(sums[3], &scale);
        } else {
            for (int32_t i = 1; i < out_w; i++) {
                to[i * step] = pillion_scalar_rescale(sums[i], &scale);
            }
        }
    }
}

typedef void row_of_outputs(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by,
                            const int32_t *const *rows, const int8_t *ws, int8_t *y);

#define ROW_BY(name, how)                                                                                              \
    PILLION_APART void name(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by,           \
                            const int32_t *const *rows, const int8_t *ws, int8_t *y) {                                 \
        row_by(p, by, rows, ws, y, how);                                                                               \
    }
ROW_BY(row_stride_1, STRIDE_1)
ROW_BY(row_stride_2, STRIDE_2)
ROW_BY(row_any, ANY)

static row_of_outputs *method_of(const pillion_depthwise_conv2d_s8_scalar_params *p) {
    return p->stride_w == 1 ? row_stride_1 : p->stride_w == 2 ? row_stride_2 : row_any;
}

static void one_channel(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by, const int8_t *ws,
                        const int8_t *x, int8_t *y, const int32_t **rows, ring *r, row_of_outputs *row, row_of_3x3 *fixed) {
    const int32_t along = p->dilation_h * r->width, down = p->stride_h * r->width;
    window_3x3 window;
    if (fixed) {
        begin_3x3(p, by, ws, &window);
    }
    int32_t *first = r->begin;
    r->next = 0, r->next_slot = first;
    for (int32_t oy = 0; oy < p->out_h; oy++, y += p->y_row_step) {
        fill_ring(p, x, r, oy * p->stride_h + r->slots);
        int32_t *slot = first;
        for (int32_t ky = 0; ky < p->kernel_h; ky++, slot = wrapped(slot + along, r)) {
            rows[ky] = slot;
        }
        first = wrapped(first + down, r);
        if (fixed) {
            next_row_3x3(p, &window, fixed, rows, y);
        } else {
            row(p, by, rows, ws, y);
        }
    }
}

void pillion_depthwise_conv2d_s8_scalar(const pillion_depthwise_conv2d_s8_scalar_params *p, const int8_t *x, int8_t *y,
                                        void *scratch) {
    const int32_t channels = p->channels, outputs = p->out_h * p->out_w * channels;
    row_of_outputs *const row = method_of(p);
    row_of_3x3 *const fixed = fixed_3x3(p);
    const int32_t **const rows = scratch;
    ring r = empty_ring(p, (int32_t *)(void *)(rows + p->kernel_h));
    const channel_constants *const constants = (const channel_constants *)(const void *)p->constants;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * channels, y += outputs) {
        for (int32_t c = 0; c < channels; c++) {
            one_channel(p, constants + c, p->weights + c * p->kernel_h * p->kernel_w, x + c, y + c, rows, &r, row, fixed);
        }
        pillion_scalar_clamp(y, outputs, p->low, p->high);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * One channel at a time, and four outputs of a row. The rows of the image that a row of outputs looks at lie widened, with
 * their padding, in a ring. */
#include "pillion/scalar.h"
#include "rescale.h"

enum { OUTPUTS = 4 };

typedef struct {
    int32_t bias;
    pillion_scalar_scale scale;
} channel_constants;

/* The ring of one channel. Rows of the image count from the first one of padding. */
typedef struct {
    int32_t *rows;
    int32_t slots, width; /* `width` numbers to a slot */
    int32_t next;         /* the first row that was not put in yet, and its slot */
    int32_t next_slot;
} ring;

PILLION_INLINE int32_t wrapped(int32_t slot, int32_t slots) {
    while (slot >= slots) {
        slot -= slots;
    }
    return slot;
}

/* Elements `step` bytes apart; gives where they end. */
static int32_t *widen(int32_t *to, const int8_t *x, int32_t step, int32_t count) {
    const int32_t three = 3 * step;
    for (; count >= 4; count -= 4, x += 4 * step, to += 4) {
        const int32_t x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[three];
        to[0] = x0, to[1] = x1, to[2] = x2, to[3] = x3;
    }
    for (; count > 0; count--, x += step) {
        *to++ = *x;
    }
    return to;
}

/* One row of the image, or of padding. */
static void put_row(const pillion_depthwise_conv2d_s8_scalar_params *p, const int8_t *x, int32_t row, int32_t *to,
                    int32_t width) {
    const int32_t zero = p->in_zp, is_inside = row >= 0 && row < p->in_h;
    int32_t *const end = to + width;
    if (is_inside) {
        const int32_t left = p->pad_left < width ? p->pad_left : width, room = width - left;
        for (int32_t i = left; i > 0; i--) {
            *to++ = zero;
        }
        to = widen(to, x + row * p->x_row_step, p->x_step, p->in_w < room ? p->in_w : room);
    }
    while (to < end) {
        *to++ = zero;
    }
}

static void fill_ring(const pillion_depthwise_conv2d_s8_scalar_params *p, const int8_t *x, ring *r, int32_t end) {
    for (; r->next < end; r->next++) {
        /* A stride that is longer than the window leaves rows out, whose places nobody looks at. */
        if (r->next >= end - r->slots) {
            put_row(p, x, r->next - p->pad_top, r->rows + r->next_slot * r->width, r->width);
        }
        r->next_slot = r->next_slot + 1 == r->slots ? 0 : r->next_slot + 1;
    }
}

#if PILLION_SCALAR_ASSEMBLY == 2
/* A row of three weights for four outputs: twenty instructions for twelve products. */
#define WEIGHT(x0, x1, x2, x3)            \
    "ldrsb %[w], [%[ws]], #1\n\t"         \
    "mla %[s0], " x0 ", %[w], %[s0]\n\t"  \
    "mla %[s1], " x1 ", %[w], %[s1]\n\t"  \
    "mla %[s2], " x2 ", %[w], %[s2]\n\t"  \
    "mla %[s3], " x3 ", %[w], %[s3]\n\t"
#define ROW                              \
    "ldr %[x], [%[rows]], #4\n\t"        \
    "add %[x], %[x], %[at], lsl #2\n\t"  \
    "ldm %[x], {r3, r4, r5, r6}\n\t"     \
    WEIGHT("r3", "r4", "r5", "r6")       \
    "ldr r3, [%[x], #16]\n\t"            \
    WEIGHT("r4", "r5", "r6", "r3")       \
    "ldr r4, [%[x], #20]\n\t"            \
    WEIGHT("r5", "r6", "r3", "r4")

PILLION_INLINE void sums_3x3(const int32_t *const *rows, int32_t at, const int8_t *ws, int32_t *sums) {
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], w;
    const int32_t *x;
    __asm volatile(ROW ROW ROW
                   : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [rows] "+r"(rows), [ws] "+r"(ws),
                     [w] "=&r"(w), [x] "=&r"(x)
                   : [at] "r"(at)
                   : "r3", "r4", "r5", "r6", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

PILLION_INLINE int32_t has_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p) {
    return p->kernel_h == 3 && p->kernel_w == 3 && p->stride_w == 1 && p->dilation_w == 1;
}
#else
PILLION_INLINE void sums_3x3(const int32_t *const *rows, int32_t at, const int8_t *ws, int32_t *sums) {
    (void)rows, (void)at, (void)ws, (void)sums;
}

PILLION_INLINE int32_t has_3x3(const pillion_depthwise_conv2d_s8_scalar_params *p) {
    (void)p;
    return 0;
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
                   : [s0] "+h"(s0), [s1] "+h"(s1), [s2] "+h"(s2), [s3] "+h"(s3), [x] "+l"(x), [ws] "+l"(ws),
                     [w] "=&l"(w), [t] "=&l"(t)
                   : [end] "l"(ws + count), [step] "l"(step), [stride0] "i"(0), [stride1] "i"(4 * stride),
                     [stride2] "i"(8 * stride), [stride3] "i"(12 * stride)
                   : "cc", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}
#else
#define taps taps_of_any_stride
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
typedef enum { FIXED_3X3, STRIDE_1, STRIDE_2, ANY } method;

PILLION_INLINE void row_by(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by,
                           const int32_t *const *rows, const int8_t *ws, int8_t *y, method how) {
    const int32_t out_w = p->out_w, step = p->y_step, columns = p->kernel_w, dilation = p->dilation_w, bias = by->bias;
    const int32_t stride = how == ANY ? p->stride_w : how == STRIDE_2 ? 2 : 1;
    const int32_t *const *const end = rows + p->kernel_h;
    const pillion_scalar_scale scale = by->scale;
    for (int32_t ox = 0; ox < out_w; ox += OUTPUTS) {
        const int32_t at = ox + OUTPUTS <= out_w || out_w < OUTPUTS ? ox : out_w - OUTPUTS;
        int32_t sums[OUTPUTS] = {bias, bias, bias, bias};
        if (how == FIXED_3X3) {
            sums_3x3(rows, at, ws, sums);
        } else {
            const int8_t *w = ws;
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
ROW_BY(row_3x3, FIXED_3X3)
ROW_BY(row_stride_1, STRIDE_1)
ROW_BY(row_stride_2, STRIDE_2)
ROW_BY(row_any, ANY)

static row_of_outputs *method_of(const pillion_depthwise_conv2d_s8_scalar_params *p) {
    if (has_3x3(p)) {
        return row_3x3;
    }
    return p->stride_w == 1 ? row_stride_1 : p->stride_w == 2 ? row_stride_2 : row_any;
}

static void one_channel(const pillion_depthwise_conv2d_s8_scalar_params *p, const channel_constants *by, const int8_t *ws,
                        const int8_t *x, int8_t *y, void *scratch, row_of_outputs *row) {
    const int32_t outputs = p->out_w < OUTPUTS ? OUTPUTS : p->out_w;
    const int32_t **const rows = scratch;
    ring r = {.slots = (p->kernel_h - 1) * p->dilation_h + 1,
              .width = (outputs - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1};
    r.rows = (int32_t *)(void *)(rows + p->kernel_h);
    int32_t first = 0;
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        fill_ring(p, x, &r, oy * p->stride_h + r.slots);
        for (int32_t ky = 0, slot = first; ky < p->kernel_h; ky++, slot = wrapped(slot + p->dilation_h, r.slots)) {
            rows[ky] = r.rows + slot * r.width;
        }
        first = wrapped(first + p->stride_h, r.slots);
        row(p, by, rows, ws, y + oy * p->y_row_step);
    }
}

void pillion_depthwise_conv2d_s8_scalar(const pillion_depthwise_conv2d_s8_scalar_params *p, const int8_t *x, int8_t *y,
                                        void *scratch) {
    const int32_t channels = p->channels, outputs = p->out_h * p->out_w * channels;
    row_of_outputs *const row = method_of(p);
    const channel_constants *const constants = (const channel_constants *)(const void *)p->constants;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * channels, y += outputs) {
        for (int32_t c = 0; c < channels; c++) {
            one_channel(p, constants + c, p->weights + c * p->kernel_h * p->kernel_w, x + c, y + c, scratch, row);
        }
        pillion_scalar_clamp(y, outputs, p->low, p->high);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * Convolution of any window over channels that come in fours. Each row of the image is widened once, with its padding,
 * into a ring of as many rows as three neighbouring windows touch; from there their 16-bit words are put into blocks, four
 * instructions for four inputs of three pixels. Nothing is special at the borders. Both loops take two steps to a
 * round; an odd number enters in the middle.
 * Registers of the gathering: r0-r2 pixels, r3 blocks, r4-r9 a block, r10 fours, r11 rows, r12 from row to row, lr
 * rounds left. Of the widening: r0 bytes, r1 words, r2 rounds left, r3-r5 a step. */
#include "pillion/assembly.h"
#include "dot.h"

#if PILLION_HAS_DSP

typedef struct {
    const pillion_conv2d_ring_s8_dsp_params *p;
    int16_t *start;
    int32_t rows;    /* of the ring */
    int32_t pitch;   /* halfwords of a row */
    int32_t columns; /* that the image has of it */
    int32_t next;    /* row of the padded image that is not in the ring yet */
} ring;

/* Words of inputs 0 and 2, 1 and 3 of every four bytes; r3-r6, eight bytes to a round. An odd four enters in the middle. */
#define WIDEN_FOUR              \
    "ldr r3, [r0], #4\n"        \
    "sxtb16 r4, r3\n"           \
    "sxtb16 r5, r3, ror #8\n"   \
    "strd r4, r5, [r1], #8\n"
PILLION_NAKED static void widen_bytes(PILLION_UNUSED const int8_t *x, PILLION_UNUSED int16_t *to, PILLION_UNUSED int32_t fours) {
    __asm volatile("push {r4, r5}\n"
                   "adds r2, r2, #1\n"
                   "lsrs r2, r2, #1\n"
                   "bcc 2f\n"
                   "1:\n" WIDEN_FOUR "2:\n" WIDEN_FOUR
                   "subs r2, r2, #1\n"
                   "bne 1b\n"
                   "pop {r4, r5}\n"
                   "bx lr\n");
}

#define GATHER                   \
    "ldrd r4, r7, [r0], #8\n"    \
    "ldrd r5, r8, [r1], #8\n"    \
    "ldrd r6, r9, [r2], #8\n"    \
    "stmia r3!, {r4-r9}\n"
PILLION_NAKED static int32_t *gather(PILLION_UNUSED const int16_t *x0, PILLION_UNUSED const int16_t *x1, PILLION_UNUSED const int16_t *x2,
                                    PILLION_UNUSED int32_t *blocks, PILLION_UNUSED int32_t fours, PILLION_UNUSED int32_t rows,
                                    PILLION_UNUSED int32_t skip) {
    __asm volatile("push {r4-r11, lr}\n"
                   "ldrd r10, r11, [sp, #36]\n"
                   "ldr r12, [sp, #44]\n"
                   "add r10, r10, #1\n"
                   "1:\n"
                   "lsrs lr, r10, #1\n"
                   "bcc 3f\n"
                   "2:\n" GATHER "3:\n" GATHER
                   "subs lr, lr, #1\n"
                   "bne 2b\n"
                   "add r0, r0, r12\n"
                   "add r1, r1, r12\n"
                   "add r2, r2, r12\n"
                   "subs r11, r11, #1\n"
                   "bne 1b\n"
                   "mov r0, r3\n"
                   "pop {r4-r11, pc}\n");
}

static void fill(int16_t *to, int32_t count, int32_t value) {
    for (; count > 0; count--) {
        *to++ = (int16_t)value;
    }
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static ring ring_of(const pillion_conv2d_ring_s8_dsp_params *p, void *scratch) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + p->kernel_w;
    const int32_t reach = least(p->in_w, columns - p->pad_left);
    const ring r = {p, scratch, p->ring_rows, columns * p->in_c, reach > 0 ? reach : 0, 0};
    return r;
}

/* The columns of padding, which no row of the image is written over. */
static void fill_sides(const ring *r) {
    const pillion_conv2d_ring_s8_dsp_params *const p = r->p;
    const int32_t left = least(p->pad_left * p->in_c, r->pitch), inside = r->columns * p->in_c;
    for (int32_t row = 0; row < r->rows; row++) {
        int16_t *const start = r->start + row * r->pitch;
        fill(start, left, p->in_zp);
        fill(start + left + inside, r->pitch - left - inside, p->in_zp);
    }
}

/* Rows up to `last` of the padded image; those before `first` are wanted no more. */
static void fill_up(ring *r, const int8_t *image, int32_t first, int32_t last) {
    const pillion_conv2d_ring_s8_dsp_params *const p = r->p;
    r->next = r->next < first ? first : r->next;
    for (; r->next <= last; r->next++) {
        int16_t *const to = r->start + r->next % r->rows * r->pitch + p->pad_left * p->in_c;
        const int32_t row = r->next - p->pad_top;
        if (r->columns == 0) {
            continue;
        }
        if ((uint32_t)row < (uint32_t)p->in_h) {
            widen_bytes(image + row * p->in_w * p->in_c, to, (int32_t)((uint32_t)(r->columns * p->in_c) / 4));
        } else {
            fill(to, r->columns * p->in_c, p->in_zp);
        }
    }
}

/* A window: its first row of the padded image, where that is in the ring, and its first column. */
typedef struct {
    int32_t top, slot, left;
} window;

static inline window first_window(const ring *r, int32_t pixel) {
    const int32_t oy = pixel / r->p->out_w;
    const int32_t top = oy * r->p->stride_h;
    const window w = {top, top % r->rows, (pixel - oy * r->p->out_w) * r->p->stride_w};
    return w;
}

static inline window after(const ring *r, window w) {
    w.left += r->p->stride_w;
    if (w.left >= r->p->out_w * r->p->stride_w) {
        w.left = 0, w.top += r->p->stride_h;
        w.slot = w.top % r->rows;
    }
    return w;
}

static inline const int16_t *tap(const ring *r, window w) {
    return r->start + w.slot * r->pitch + w.left * r->p->in_c;
}

/* Three windows of one row of outputs: kernel rows up to the end of the ring, then those at its start. */
static void take_neighbours(const ring *r, window w, int32_t *blocks) {
    const pillion_conv2d_ring_s8_dsp_params *const p = r->p;
    const int32_t length = p->kernel_w * p->in_c, step = p->stride_w * p->in_c;
    const int32_t fours = (int32_t)((uint32_t)length / 4), skip = 2 * (r->pitch - length);
    const int32_t before = least(p->kernel_h, r->rows - w.slot);
    const int16_t *const x = tap(r, w);
    blocks = gather(x, x + step, x + 2 * step, blocks, fours, before, skip);
    if (before < p->kernel_h) {
        const int16_t *const start = x - w.slot * r->pitch;
        gather(start, start + step, start + 2 * step, blocks, fours, p->kernel_h - before, skip);
    }
}

/* Any three windows, one kernel row at a time. */
static void take_any(const ring *r, const window w[3], int32_t *blocks) {
    const pillion_conv2d_ring_s8_dsp_params *const p = r->p;
    const int32_t fours = (int32_t)((uint32_t)(p->kernel_w * p->in_c) / 4);
    window at[3] = {w[0], w[1], w[2]};
    for (int32_t ky = p->kernel_h; ky > 0; ky--) {
        blocks = gather(tap(r, at[0]), tap(r, at[1]), tap(r, at[2]), blocks, fours, 1, 0);
        for (int32_t i = 0; i < 3; i++) {
            at[i].slot = at[i].slot + 1 == r->rows ? 0 : at[i].slot + 1;
        }
    }
}

static void convolve_image(const pillion_conv2d_ring_s8_dsp_params *p, pillion_dsp_dot *dot, const int8_t *x, int8_t *y) {
    const int32_t count = p->out_h * p->out_w;
    ring r = ring_of(p, dot->rest);
    fill_sides(&r);
    window next = first_window(&r, 0);
    for (int32_t first = 0; first < count; first += 3) {
        if (first + 3 > count && count > 3) {
            first = count - 3; /* the last three overlap those before */
            next = first_window(&r, first);
        }
        if (next.left + 3 * p->stride_w < p->out_w * p->stride_w) { /* with more of the row to come */
            fill_up(&r, x, next.top, next.top + p->kernel_h - 1);
            take_neighbours(&r, next, dot->blocks);
            next.left += 3 * p->stride_w;
        } else {
            window w[3];
            for (int32_t i = 0; i < 3; i++) {
                w[i] = next;
                next = first + i + 1 < count ? after(&r, next) : next;
            }
            fill_up(&r, x, w[0].top, w[2].top + p->kernel_h - 1);
            take_any(&r, w, dot->blocks);
        }
        dot->three(dot, y + first * p->out_c);
    }
}

void pillion_dsp_ring(const pillion_conv2d_ring_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                      pillion_dsp_beginner *begin) {
    pillion_dsp_dot dot = PILLION_DSP_DOT(p);
    begin(&dot, p->out_h * p->out_w, scratch);
    const int32_t image_bytes = p->out_h * p->out_w * p->out_c;
    for (int32_t n = 0; n < p->batch; n++) {
        convolve_image(p, &dot, x + n * p->in_h * p->in_w * p->in_c, y + n * image_bytes);
    }
    pillion_dsp_clamp(y, p->batch * image_bytes, p->low, p->high);
}

void pillion_conv2d_ring_s8_dsp(const pillion_conv2d_ring_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_ring(p, x, y, scratch, pillion_dsp_dot_begin);
}
#endif

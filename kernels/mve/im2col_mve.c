/* SPDX-License-Identifier: Apache-2.0
 * Convolution with any kernel, stride, dilation and padding: the windows of some output pixels are laid out in
 * scratch (patches), which are then rows of a matrix for the dot products.
 *
 * The input rows under the window are kept, with their padding, in a ring of row buffers; each is copied once. A window
 * is a few runs of bytes that lie together in these rows: kernel_h runs of kernel_w pixels, or kernel_h * kernel_w runs
 * of one pixel where columns are dilated. Runs are copied 16 bytes at a time, for all patches one run after the other:
 * the surplus is overwritten by the next run, and what is left of it meets zero weights. */
#include "im2col.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#include "bytes.h"

typedef pillion_conv2d_im2col_s8_mve_params params;

static void load_row(const params *p, const int8_t *image, int32_t row, int8_t *ring) {
    int8_t *const to = ring + (row + p->pad_top) % p->ring_rows * p->ring_row_bytes;
    if (row < 0 || row >= p->in_h) {
        pillion_mve_fill(to, p->in_zp, p->ring_row_bytes);
        return;
    }
    const int32_t end = p->left_bytes + p->copy_bytes;
    pillion_mve_fill(to, p->in_zp, p->left_bytes);
    pillion_mve_copy(to + p->left_bytes, image + row * p->in_row_bytes, p->copy_bytes);
    pillion_mve_fill(to + end, p->in_zp, p->ring_row_bytes - end);
}

/* 16 bytes of each patch. */
static void gather(const int8_t *from, int32_t from_step, int8_t *to, int32_t to_step, int32_t count) {
    for (int32_t i = 0; i < count; i++, from += from_step, to += to_step) {
        vst1q_s8(to, vld1q_s8(from));
    }
}

/* The same where each row of a window is one run that a vector holds. */
static void make_short_patches(const params *p, const int8_t *ring, int32_t slot, int32_t first, int32_t count, int8_t *to) {
    const int32_t row_bytes = p->ring_row_bytes, run_bytes = p->run_bytes, step = p->column_bytes, to_step = p->patch_bytes;
    const int32_t before_wrap = p->ring_rows - slot;
    const int8_t *run = ring + slot * row_bytes + first * step;
    for (int32_t ky = 1; ky <= p->kernel_h; ky++, to += run_bytes) {
        gather(run, step, to, to_step, count);
        run += ky == before_wrap ? row_bytes * (1 - p->ring_rows) : row_bytes;
    }
}

/* The windows of `count` pixels of a row from `first` on. */
static void make_patches(const params *p, const int8_t *ring, int32_t slot, int32_t first, int32_t count, int8_t *to) {
    if (p->runs == 1 && p->run_bytes <= 16 && p->dilation_h == 1) {
        make_short_patches(p, ring, slot, first, count, to);
        return;
    }
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *run = ring + slot * p->ring_row_bytes + first * p->column_bytes;
        for (int32_t i = 0; i < p->runs; i++, run += p->run_step, to += p->run_bytes) {
            for (int32_t b = 0; b < p->run_bytes; b += 16) {
                gather(run + b, p->column_bytes, to + b, p->patch_bytes, count);
            }
        }
        slot += p->dilation_h;
        slot = slot < p->ring_rows ? slot : slot - p->ring_rows;
    }
}

void pillion_mve_im2col(const pillion_conv2d_im2col_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                        pillion_mve_products dot, pillion_mve_loop loop) {
    pillion_mve_dot_task d = {loop, 1, 0, 0, p->patch_bytes, p->out_c, p->chunks, p->out_zp, p->relu, p->constants};
    int8_t *const patches = scratch + p->ring_bytes;
    int8_t *out = y;
    for (int32_t n = 0; n < p->images; n++, x += p->in_h * p->in_row_bytes) {
        int32_t next = -p->pad_top;
        for (int32_t top = next; top < p->end_top; top += p->stride_h) {
            for (next = next < top ? top : next; next < top + p->ring_rows; next++) {
                load_row(p, x, next, scratch);
            }
            for (int32_t first = 0; first < p->out_w;) {
                const int32_t room = p->block - d.pixels, rest = p->out_w - first;
                const int32_t count = rest < room ? rest : room;
                make_patches(p, scratch, (top + p->pad_top) % p->ring_rows, first, count,
                             patches + d.pixels * p->patch_bytes);
                first += count;
                d.pixels += count;
                if (d.pixels == p->block || (first == p->out_w && top + p->stride_h >= p->end_top)) {
                    dot(&d, patches, out);
                    out += d.pixels * p->out_c;
                    d.pixels = 0;
                }
            }
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

#endif

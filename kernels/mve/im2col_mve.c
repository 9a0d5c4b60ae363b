/* SPDX-License-Identifier: Apache-2.0
 * Convolution with any kernel, stride, dilation and padding: the windows of some output pixels are laid out in
 * scratch (patches), which are then rows of a matrix for the dot products.
 *
 * The input rows under the window are kept, with their padding, in a ring of row buffers; each is copied once. A window
 * is a few runs of bytes that lie together in these rows: kernel_h runs of kernel_w pixels, or kernel_h * kernel_w runs
 * of one pixel where columns are dilated. Runs are copied 16 bytes at a time, for all patches one run after the other:
 * the next run overwrites the surplus, and the last surplus meets zero weights. */
#include "im2col.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "halves.h"

typedef pillion_conv2d_im2col_s8_mve_params params;

static void load_row(const params *p, const int8_t *image, int32_t row, int8_t *ring) {
    int8_t *const to = ring + (row + p->pad_top) % p->ring_rows * p->ring_row_bytes;
    if ((uint32_t)row >= (uint32_t)p->in_h) { /* above the image, too */
        pillion_mve_fill(to, p->in_zp, p->ring_row_bytes);
        return;
    }
    const int32_t end = p->left_bytes + p->copy_bytes;
    pillion_mve_fill(to, p->in_zp, p->left_bytes);
    pillion_mve_copy(to + p->left_bytes, image + row * p->in_row_bytes, p->copy_bytes);
    pillion_mve_fill(to + end, p->in_zp, p->ring_row_bytes - end);
}

/* 16 bytes of each patch; there is at least one patch. */
static inline void gather(const int8_t *from, int32_t from_step, int8_t *to, int32_t to_step, int32_t count) {
    __asm__ volatile(
        "dls lr, %[count]\n"
        "1: vldrb.u8 q0, [%[from]]\n"
        "add %[from], %[from_step]\n"
        "vstrb.8 q0, [%[to]]\n"
        "add %[to], %[to_step]\n"
        "le lr, 1b\n"
        : [from] "+&r"(from), [to] "+&r"(to)
        : [count] "r"(count), [from_step] "r"(from_step), [to_step] "r"(to_step)
        : "lr", "q0", "memory");
}

/* The windows of `count` pixels of a row from `first` on; apart from its caller, so that the loops have registers. */
static __attribute__((noinline)) void make_patches(const params *p, const int8_t *ring, int32_t slot, int32_t first,
                                                   int32_t count, int8_t *to) {
    const int32_t run_bytes = p->run_bytes, step = p->column_bytes, to_step = p->patch_bytes;
    for (int32_t ky = p->kernel_h; ky > 0; ky--) {
        const int8_t *run = ring + slot * p->ring_row_bytes + first * step;
        for (int32_t i = p->runs; i > 0; i--, run += p->run_step, to += run_bytes) {
            int32_t b = 0;
            do {
                gather(run + b, step, to + b, to_step, count);
                b += 16;
            } while (b < run_bytes);
        }
        slot += p->dilation_h;
        slot -= slot < p->ring_rows ? 0 : p->ring_rows;
    }
}

void pillion_mve_im2col(const pillion_conv2d_im2col_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                        pillion_mve_products dot, pillion_mve_loop loop) {
    int8_t *const patches = scratch + p->ring_bytes;
    pillion_mve_dot_task d = {loop,     1,         0,        0,            p->patch_bytes,
                              p->out_c, p->chunks, p->out_zp, p->signs, p->constants, patches + p->block * p->patch_bytes};
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

void pillion_mve_im2col_16(const params *p, const void *x, int16_t *y, int8_t *scratch, pillion_mve_products dot,
                          pillion_mve_loop loop) {
    params bytes = *p;
    bytes.out_c = 2 * p->out_c;
    bytes.low = INT8_MIN;
    bytes.high = INT8_MAX;
    pillion_mve_im2col(&bytes, x, (int8_t *)y, scratch, dot, loop);
    if (p->signs == 0) {
        pillion_mve_clamp_16(y, p->images * (p->end_top + p->pad_top) / p->stride_h * p->out_w * p->out_c, p->low, p->high);
    }
}

#endif

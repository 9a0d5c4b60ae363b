/* SPDX-License-Identifier: Apache-2.0
 * Copies the rows of an image into planes; see planes.h. */
#include "planes.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "halves.h"

/* A row of the image, 16 channels at a time: two planes at once, then the last one. */
static void split_row(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *x, int8_t *to) {
    int32_t plane = 0;
    for (; plane + 1 < p->planes; plane += 2, x += 32, to += 2 * p->plane_bytes) {
        const int8_t *from = x;
        int8_t *first = to, *second = to + p->plane_bytes;
        __asm__ volatile(
            "dls lr, %3\n"
            "1: vldrb.u8 q0, [%0]\n"
            "vldrb.u8 q1, [%0, #16]\n"
            "add %0, %4\n"
            "vstrb.8 q0, [%1], #16\n"
            "vstrb.8 q1, [%2], #16\n"
            "le lr, 1b\n"
            : "+&r"(from), "+&r"(first), "+&r"(second)
            : "r"(p->copy_w), "r"(16 * p->planes)
            : "lr", "q0", "q1", "memory");
    }
    if (plane < p->planes) {
        pillion_mve_copy_plane(to, x, 16 * p->planes, p->copy_w);
    }
}

void pillion_mve_planes(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                        pillion_mve_plane_rows output_rows) {
    const int32_t row_bytes = p->planes * p->plane_bytes;
    int8_t *out = y;
    pillion_mve_fill(scratch, p->in_zp, p->scratch_rows * row_bytes);
    for (int32_t n = 0; n < p->images; n++, x += p->in_h * p->in_row_bytes) {
        for (int32_t oy = 0; oy < p->out_h; oy += p->block_rows) {
            const int32_t rows = p->out_h - oy < p->block_rows ? p->out_h - oy : p->block_rows;
            const int32_t top = oy * p->stride_h - p->pad_top;
            int8_t *to = scratch;
            for (int32_t row = top; row < top + (rows - 1) * p->stride_h + 3; row++, to += row_bytes) {
                if (row < 0 || row >= p->in_h) {
                    pillion_mve_fill(to, p->in_zp, row_bytes);
                } else {
                    split_row(p, x + row * p->in_row_bytes, to + 16 * p->pad_left);
                }
            }
            output_rows(p, scratch, out, rows);
            out += rows * p->out_w * p->out_c;
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

void pillion_mve_planes_16(const pillion_conv2d_3x3_s8_mve_params *p, const void *x, int16_t *y, int8_t *scratch, pillion_mve_plane_rows output_rows) {
    pillion_conv2d_3x3_s8_mve_params bytes = *p;
    bytes.out_c = 2 * p->out_c;
    bytes.low = INT8_MIN;
    bytes.high = INT8_MAX;
    pillion_mve_planes(&bytes, x, (int8_t *)y, scratch, output_rows);
    if (p->signs == 0) {
        pillion_mve_clamp_16(y, p->images * p->out_h * p->out_w * p->out_c, p->low, p->high);
    }
}

#endif

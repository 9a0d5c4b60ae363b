/* SPDX-License-Identifier: Apache-2.0
 * The walk of wide.h over images, blocks of rows and groups of channels. */
#include "wide.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

/* Of each of some pixels, `step` bytes apart, 16 bytes at the offsets in `lanes`; at least one pixel. */
static void gather_plane(int8_t *to, const int8_t *from, const uint8_t *lanes, int32_t step, int32_t count) {
    __asm__ volatile(
        "vldrb.u8 q1, [%[lanes]]\n"
        "dls lr, %[count]\n"
        "1: vldrb.u8 q0, [%[from], q1]\n"
        "add %[from], %[step]\n"
        "vstrb.8 q0, [%[to]], #16\n"
        "le lr, 1b\n"
        : [to] "+&r"(to), [from] "+&r"(from)
        : [lanes] "r"(lanes), [step] "r"(step), [count] "r"(count)
        : "lr", "q0", "q1", "cc", "memory");
}

/* The bytes of the inputs of 16 bytes of outputs, counted from the input of the first one, which is a filter of this number. */
static void number_inputs(int32_t filter, int32_t filters, int32_t bytes, uint8_t *lanes) {
    for (int32_t i = 0; i < 16; i++) {
        lanes[i] = (uint8_t)((filter + i / bytes) / filters * bytes + i % bytes);
    }
}

/* Rows from `top` on of 16 bytes of channels, with padding on the left. Rows outside the image are padding all over, which the first channels
 * leave to the others. */
static void load_rows(const pillion_depthwise_any_s8_mve_params *p, const int8_t *image, int32_t c, int32_t bytes, int32_t top,
                      int32_t rows, int8_t *to) {
    const int32_t filters = p->filters, step = p->channels / filters * bytes;
    uint8_t lanes[16];
    if (filters > 1) {
        number_inputs(c % filters, filters, bytes, lanes);
    }
    image += c / filters * bytes;
    for (int32_t row = top; row < top + rows; row++, to += p->plane_row_bytes) {
        if (row < 0 || row >= p->in_h) {
            if (c == 0) {
                pillion_mve_fill(to, p->in_zp, p->plane_row_bytes);
            }
        } else if (filters > 1) {
            gather_plane(to + p->left_bytes, image + row * p->in_row_bytes, lanes, step, p->copy_w);
        } else {
            pillion_mve_copy_plane(to + p->left_bytes, image + row * p->in_row_bytes, step, p->copy_w);
        }
    }
}

/* The predicate of fewer channels than there may be. */
static uint32_t lanes_of(int32_t count, const pillion_mve_wide_kind *kind) {
    if (kind->x_bytes == kind->y_bytes) {
        return (1u << count * kind->x_bytes) - 1;
    }
    return ((1u << ((count + 1) & ~1)) - 1) | ((1u << (count & ~1)) - 1) << 16;
}

/* All channels of some rows of outputs. */
static void block(const pillion_depthwise_any_s8_mve_params *p, const int8_t *image, int8_t *y, int32_t top, int32_t rows,
                  int8_t *scratch, const pillion_mve_wide_kind *kind) {
    const int32_t x_bytes = kind->x_bytes, y_bytes = kind->y_bytes, unit = x_bytes == 1 ? 16 : 8;
    const int32_t words = kind->numbers + (unit >> 2) * p->tap_count, plane_rows = (rows - 1) * p->stride_h + p->window_rows;
    pillion_mve_wide_state s = {p->taps, p->constants, scratch, p->tap_count >> 1, y, p->out_w, y_bytes == 1 ? p->out_zp : p->low,
               p->window_step, p->channels * y_bytes, UINT32_MAX, p->window_skip, rows, p->low >= p->out_zp, p->plane_row_bytes};
    for (int32_t c = 0; c < p->channels; c += unit, s.constants += words, s.y += unit * y_bytes) {
        if (p->channels - c < unit) {
            s.lanes = lanes_of(p->channels - c, kind);
        }
        s.rows = rows;
        load_rows(p, image, c, x_bytes, top, plane_rows, scratch);
        kind->outputs(&s);
    }
}

void pillion_mve_wide(const pillion_depthwise_any_s8_mve_params *p, const void *x, void *y, int8_t *scratch,
                      const pillion_mve_wide_kind *kind) {
    const int8_t *image = x;
    int8_t *out = y;
    pillion_mve_fill(scratch, p->in_zp, p->scratch_bytes);
    for (int32_t n = 0; n < p->images; n++, image += p->in_h * p->in_row_bytes) {
        for (int32_t oy = 0; oy < p->out_h; oy += p->block_rows) {
            const int32_t rows = p->out_h - oy < p->block_rows ? p->out_h - oy : p->block_rows;
            block(p, image, out, oy * p->stride_h - p->pad_top, rows, scratch, kind);
            out += rows * p->out_w * p->channels * kind->y_bytes;
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution as products of matrices. A tile is the sums of some pixels and of as many channels as a vector has bytes; they stay
 * in registers from the bias to the answer. */
#include "pillion/host.h"

#include "vector.h"

typedef pillion_conv2d_s8_host_params params;

/* Pixels of a tile: the sums, and the weights and inputs of a step, fill the registers. */
#if PILLION_WIDE
enum { PIXELS = 6, MOST_PIXELS = 8 };
#else
enum { PIXELS = 2, MOST_PIXELS = 4 };
#endif

/* Where the windows of a tile begin, and where their answers go. */
typedef struct {
    const uint8_t *x[MOST_PIXELS];
    int8_t *y[MOST_PIXELS];
} places;

/* The channels [first, first + count). */
typedef struct {
    int32_t first, count;
    const int8_t *weights;
    int32_t step; /* from four inputs to the next */
} channels;

static channels channels_from(const params *p, int32_t first) {
    const int32_t inside = first % PILLION_BLOCK_CHANNELS, block = first - inside, left = p->out_c - block;
    const int32_t width = left < PILLION_BLOCK_CHANNELS ? (left + 15) / 16 * 16 : PILLION_BLOCK_CHANNELS;
    return (channels){.first = first, .count = pillion_left(first, p->out_c), .step = 4 * width,
                      .weights = p->weights + 4 * (block * p->kernel_h * p->fours + inside)};
}

PILLION_INLINE void tile(const params *p, const channels *c, const places *at, int32_t pixels, int32_t registers) {
    pillion_vector sums[MOST_PIXELS][PILLION_REGISTERS];
    const uint8_t *x[MOST_PIXELS];
    const int8_t *w = c->weights;
    const int32_t run = 4 * p->fours, step = c->step, row_step = p->kernel_row_step;
    for (int32_t r = 0; r < registers; r++) {
        const pillion_vector bias = pillion_load_vector(p->bias + c->first + PILLION_LANES * r);
        for (int32_t m = 0; m < pixels; m++) {
            sums[m][r] = bias;
        }
    }
    for (int32_t m = 0; m < pixels; m++) {
        x[m] = at->x[m];
    }
    for (int32_t rows = p->kernel_h; rows > 0; rows--) {
        for (int32_t k = 0; k < run; k += 4, w += step) {
            pillion_vector weights[PILLION_REGISTERS];
            for (int32_t r = 0; r < registers; r++) {
                weights[r] = pillion_load_vector(w + PILLION_VECTOR * r);
            }
            for (int32_t m = 0; m < pixels; m++) {
                const pillion_vector inputs = pillion_four_for_all(x[m] + k);
                for (int32_t r = 0; r < registers; r++) {
                    sums[m][r] = pillion_add_products(sums[m][r], inputs, weights[r]);
                }
            }
        }
        for (int32_t m = 0; m < pixels; m++) {
            x[m] += row_step;
        }
    }
    pillion_scales scales;
    PILLION_LOAD_SCALES(&scales, p, c->first, c->count, registers);
    if (scales.rectified) {
        for (int32_t m = 0; m < pixels; m++) {
            pillion_answer(&scales, sums[m], at->y[m] + c->first, 1, registers);
        }
    } else {
        for (int32_t m = 0; m < pixels; m++) {
            pillion_answer(&scales, sums[m], at->y[m] + c->first, 0, registers);
        }
    }
}

/* Rows of the result, from a copy of the image. */
typedef struct {
    const uint8_t *x;
    int8_t *y;
    int32_t pixels;
} strip;

/* The places of so many pixels from `first` on; the last pixel once more for each that is missing. */
static void find(const params *p, const strip *s, int32_t first, int32_t count, places *at) {
    int32_t row = first / p->out_w, column = first % p->out_w, number = first;
    for (int32_t m = 0; m < count; m++) {
        at->x[m] = s->x + row * p->stride_h * p->row_bytes + column * p->column_step;
        at->y[m] = s->y + number * p->out_c;
        if (number + 1 < s->pixels) {
            number++, column++;
            if (column == p->out_w) {
                column = 0, row++;
            }
        }
    }
}

/* All pixels of a strip, so many at a time. */
PILLION_INLINE void tiles(const params *p, const strip *s, const channels *c, int32_t pixels, int32_t registers) {
    for (int32_t first = 0; first < s->pixels; first += pixels) {
        places at;
        find(p, s, first, pixels, &at);
        tile(p, c, &at, pixels, registers);
    }
}

/* Each size of a tile is a function of its own, in which all registers are the tile's. Few registers leave room for more pixels. */
#define PILLION_TILES(name, pixels, registers)                                             \
    PILLION_APART void name(const params *p, const strip *s, const channels *c) {          \
        tiles(p, s, c, (pixels), (registers));                                             \
    }
PILLION_TILES(one_pixel_1, 1, 1)
PILLION_TILES(one_pixel_2, 1, 2)
PILLION_TILES(one_pixel_3, 1, 3)
PILLION_TILES(one_pixel_4, 1, 4)
PILLION_TILES(pixels_1, MOST_PIXELS, 1)
PILLION_TILES(pixels_2, MOST_PIXELS, 2)
PILLION_TILES(pixels_3, PIXELS, 3)
PILLION_TILES(pixels_4, PIXELS, 4)

/* All pixels of a strip, for some channels. */
static void answer(const params *p, const strip *s, const channels *c) {
    const int32_t is_one = s->pixels == 1;
    switch (pillion_registers(c->count)) {
    case 1:
        (is_one ? one_pixel_1 : pixels_1)(p, s, c);
        break;
    case 2:
        (is_one ? one_pixel_2 : pixels_2)(p, s, c);
        break;
    case 3:
        (is_one ? one_pixel_3 : pixels_3)(p, s, c);
        break;
    default:
        (is_one ? one_pixel_4 : pixels_4)(p, s, c);
        break;
    }
}

static uint8_t *fill(uint8_t *to, int32_t value, int32_t count) {
    memset(to, value, (size_t)count);
    return to + count;
}

static uint8_t *copy(uint8_t *to, const int8_t *from, int32_t count) {
    for (int32_t at = 0; at < count; at += PILLION_VECTOR) {
        const int32_t some = pillion_left(at, count);
        pillion_store_some(to + at, pillion_flip_signs(pillion_load_some(from + at, some)), some);
    }
    return to + count;
}

/* `count` padded rows of the image from `top` on, which may lie outside. */
static void copy_rows(const params *p, const int8_t *x, int32_t top, int32_t count, uint8_t *to) {
    const int32_t bytes = p->in_w * p->in_c, left = p->pad_left * p->in_c, right = p->row_bytes - left - bytes;
    const int32_t outside = p->in_zp + 128;
    if (p->row_bytes == bytes && top >= 0 && top + count <= p->in_h) {
        copy(to, x + top * bytes, count * bytes);
        return;
    }
    for (int32_t row = top; row < top + count; row++) {
        if (row < 0 || row >= p->in_h) {
            to = fill(to, outside, p->row_bytes);
        } else if (right < 0) { /* windows do not reach the end of a row */
            to = copy(fill(to, outside, left), x + row * bytes, p->row_bytes - left);
        } else {
            to = fill(copy(fill(to, outside, left), x + row * bytes, bytes), outside, right);
        }
    }
}

void pillion_conv2d_s8_host(const pillion_conv2d_s8_host_params *p, const int8_t *x, int8_t *y, void *scratch) {
    uint8_t *const rows = scratch;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c) {
        for (int32_t oy = 0; oy < p->out_h; oy += p->strip_rows) {
            const int32_t count = p->out_h - oy < p->strip_rows ? p->out_h - oy : p->strip_rows;
            const int32_t seen = (count - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
            const strip s = {.x = rows, .y = y, .pixels = count * p->out_w};
            copy_rows(p, x, oy * p->stride_h - p->pad_top, seen, rows);
            for (int32_t first = 0; first < p->out_c; first += PILLION_VECTOR) {
                const channels c = channels_from(p, first);
                answer(p, &s, &c);
            }
            y += s.pixels * p->out_c;
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * Convolution with windows of 3x3 by Winograd's way: 16 products for 2x2 results where the definition has 36, and all of them in
 * integers. The inputs of three tiles are prepared together, then meet the weights of two output channels at a time. Tiles that
 * reach over a border are first copied, with their padding. */
#include "dot.h"
#include "winograd.h"

#include <string.h>

#if PILLION_HAS_DSP

#define TILES PILLION_DSP_WINOGRAD_TILES
#define RESULTS 4 /* of a tile */
#define PATCH_WORDS 8 /* of a tile with padding, for two channels */

/* Where things lie in scratch, and which tile comes next. */
typedef struct {
    const pillion_conv2d_winograd_s8_dsp_params *p;
    int32_t *inputs, *patch;
    int8_t **places; /* of results */
    uint32_t *jumps;
    int8_t *nowhere;
    const int8_t *image;
    int8_t *y;
    int32_t steps, row, column; /* of the next tile's results */
} tiles;

static tiles tiles_of(const pillion_conv2d_winograd_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t steps = (int32_t)((uint32_t)p->in_c / 2);
    tiles t = {.p = p, .inputs = scratch, .image = x, .y = y, .steps = steps};
    t.patch = t.inputs + PILLION_DSP_WINOGRAD_PLACES * TILES * steps;
    t.places = (int8_t **)(t.patch + PATCH_WORDS * steps);
    t.jumps = (uint32_t *)(t.places + TILES * RESULTS);
    t.nowhere = (int8_t *)pillion_dsp_winograd_jumps(t.jumps, steps);
    return t;
}

/* The tile whose first pixel is this one, with zero points around the image. */
static void copy_tile(const tiles *t, int32_t top, int32_t left) {
    const pillion_conv2d_winograd_s8_dsp_params *const p = t->p;
    const uint32_t zeros = (uint32_t)(p->in_zp & 255) * 0x01010101u;
    int32_t *to = t->patch;
    for (int32_t row = top; row < top + 4; row++) {
        for (int32_t column = left; column < left + 4; column++) {
            const int is_inside = (uint32_t)row < (uint32_t)p->in_h && (uint32_t)column < (uint32_t)p->in_w;
            const int8_t *from = t->image + (is_inside ? (row * p->in_w + column) * p->in_c : 0);
            for (int32_t words = (int32_t)((uint32_t)t->steps / 2); words > 0; words--, to++, from += 4) {
                memcpy(to, is_inside ? (const void *)from : &zeros, 4);
            }
        }
    }
}

static void prepare_inputs(const tiles *t, int32_t *to) {
    const pillion_conv2d_winograd_s8_dsp_params *const p = t->p;
    const int32_t top = t->row - p->pad_top, left = t->column - p->pad_left;
    const int32_t place = t->steps * TILES * 4, fours = (int32_t)((uint32_t)t->steps / 2);
    if (top < 0 || left < 0 || top + 4 > p->in_h || left + 4 > p->in_w) {
        copy_tile(t, top, left);
        pillion_dsp_winograd_inputs((const int8_t *)t->patch, 4 * p->in_c, p->in_c, to, place, fours);
    } else {
        const int8_t *const x = t->image + (top * p->in_w + left) * p->in_c;
        pillion_dsp_winograd_inputs(x, p->in_w * p->in_c, p->in_c, to, place, fours);
    }
}

/* Where the results of the next tile go; those beyond the image go nowhere. */
static void find_places(const tiles *t, int8_t **places) {
    const pillion_conv2d_winograd_s8_dsp_params *const p = t->p;
    int8_t *const y = t->y + (t->row * p->out_w + t->column) * p->out_c;
    const int below = t->row + 1 < p->out_h, beside = t->column + 1 < p->out_w;
    const int32_t pitch = p->out_w * p->out_c;
    places[0] = y;
    places[TILES] = below ? y + pitch : t->nowhere;
    places[2 * TILES] = beside ? y + p->out_c : t->nowhere;
    places[3 * TILES] = below && beside ? y + pitch + p->out_c : t->nowhere;
}

static void next_tile(tiles *t) {
    const pillion_conv2d_winograd_s8_dsp_params *const p = t->p;
    t->column += 2;
    if (t->column >= p->out_w) {
        t->column = 0, t->row += 2;
    }
    if (t->row >= p->out_h) {
        t->row = 0;
        t->image += p->in_h * p->in_w * p->in_c, t->y += p->out_h * p->out_w * p->out_c;
    }
}

/* Prepares the inputs of three tiles. Where fewer are left, the results of the others, of no matter, go nowhere. */
static void prepare_tiles(tiles *t, int32_t left) {
    for (int32_t i = 0; i < TILES; i++) {
        if (i < left) {
            prepare_inputs(t, t->inputs + i);
            find_places(t, t->places + i);
            next_tile(t);
        } else {
            for (int32_t result = 0; result < RESULTS; result++) {
                t->places[i + result * TILES] = t->nowhere;
            }
        }
    }
}

static void multiply(const tiles *t) {
    pillion_dsp_winograd_loop loop = {t->inputs, t->p->weights, t->jumps, t->p->constants, t->places};
    for (int32_t channel = 0; channel < t->p->out_c; channel += 2) {
        pillion_dsp_winograd_pair(&loop);
        loop.w += 2 * PILLION_DSP_WINOGRAD_PLACES * t->steps, loop.constants += PILLION_DSP_WINOGRAD_CONSTANTS;
    }
}

void pillion_conv2d_winograd_s8_dsp(const pillion_conv2d_winograd_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    tiles t = tiles_of(p, x, y, scratch);
    int32_t left = p->batch * ((p->out_h + 1) >> 1) * ((p->out_w + 1) >> 1);
    for (; left > 0; left -= TILES) {
        prepare_tiles(&t, left);
        multiply(&t);
    }
    pillion_dsp_clamp(y, p->batch * p->out_h * p->out_w * p->out_c, p->low, p->high);
}
#endif

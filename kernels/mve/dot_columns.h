/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 2 pixels x 8 channels at a time; see dot.h for the computation, dot_asm.h for the method. This is the
 * code around the loops: the last pixel or channels of odd numbers. The including file defines EIGHT (the bytes of eight results), GROUP_WORDS
 * (the constants of a group, by its chunks) and HEAD_WORDS (the constants before its sums). Channels are counted in bytes of y. */
#include "bytes.h"
#include "dot_asm.h"

/* Some columns of all rows, for `groups` groups of channels from `channel` on. One column alone is done twice. */
static __attribute__((noinline)) void columns(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y,
                                              int32_t channel, int32_t groups, int32_t column, int32_t count) {
    const int32_t lone = count & 1, pixel = d->out_c;
    const int32_t group_words = GROUP_WORDS(d->chunks);
    pillion_mve_pairs s;
    s.first_x0 = s.x0 = x + column * d->pixel_bytes;
    s.first_x1 = s.x1 = lone ? s.x0 : s.x0 + d->pixel_bytes;
    s.first_y = s.y = y + column * pixel + channel;
    s.signs = d->signs;
    s.y_step = lone ? 0 : pixel;
    s.first_row_end = s.row_end = s.y + count * s.y_step;
    s.x_step = 2 * d->pixel_bytes;
    s.x_skip = d->row_bytes - ((count + 1) >> 1) * s.x_step;
    s.y_row = d->pixels * pixel;
    s.y_skip = s.y_row - count * s.y_step;
    s.rows = s.rows_left = d->rows;
    s.groups_left = groups;
    s.group_bytes = group_words * 4;
    s.constants = d->constants + (channel + EIGHT - 1) / EIGHT * group_words + HEAD_WORDS;
    s.out_zp = d->out_zp;
    s.one = 1;
    s.loops = d->chunks;
    d->loop(&s);
}

enum { SHORT_ROW = 7 };

/* An odd row that is short: pairs of the first half and the second, each a row of its own to the loop, so that the constants of a group are
 * loaded once. The pixel in the middle is done twice. */
static __attribute__((noinline)) void halves(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y,
                                             int32_t channel, int32_t groups) {
    const int32_t apart = d->pixels / 2, group_words = GROUP_WORDS(d->chunks), pixel = d->out_c;
    pillion_mve_pairs s;
    s.first_x0 = s.x0 = x;
    s.first_x1 = s.x1 = x + apart * d->pixel_bytes;
    s.first_y = s.y = y + channel;
    s.signs = d->signs;
    s.y_step = apart * pixel;
    s.first_row_end = s.row_end = s.y + 2 * s.y_step;
    s.x_step = d->pixel_bytes;
    s.x_skip = 0;
    s.y_row = pixel;
    s.y_skip = s.y_row - 2 * s.y_step;
    s.rows = s.rows_left = apart + 1;
    s.groups_left = groups;
    s.group_bytes = group_words * 4;
    s.constants = d->constants + (channel + EIGHT - 1) / EIGHT * group_words + HEAD_WORDS;
    s.out_zp = d->out_zp;
    s.one = 1;
    s.loops = d->chunks;
    d->loop(&s);
}

/* The pixels of an odd row in pairs: the last two again, or the only one twice. */
static void groups(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t channel, int32_t count) {
    if (d->rows == 1 && d->pixels & 1 && d->pixels > 1 && d->pixels <= SHORT_ROW && d->out_c >= EIGHT) {
        halves(d, x, y, channel, count);
        return;
    }
    if (d->pixels > 1) {
        columns(d, x, y, channel, count, 0, d->pixels & ~1);
    }
    if (d->pixels & 1) {
        columns(d, x, y, channel, count, d->pixels > 1 ? d->pixels - 2 : 0, d->pixels > 1 ? 2 : 1);
    }
}

/* Eight channels are written even where there are fewer: the surplus is overwritten by the next pixel, and the last
 * pixels go through a buffer. */
static void narrow(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    int8_t last[8 * EIGHT] __attribute__((aligned(4)));
    pillion_mve_dot_task part = *d;
    part.rows = 1;
    for (int32_t row = 0; row < d->rows; row++, x += d->row_bytes, y += d->pixels * d->out_c) {
        const int32_t direct = d->pixels > 8 ? d->pixels - 8 : 0;
        part.pixels = direct;
        groups(&part, x, y, 0, 1);
        part.pixels = d->pixels - direct;
        groups(&part, x + direct * d->pixel_bytes, last, 0, 1);
        pillion_mve_copy(y + direct * d->out_c, last, part.pixels * d->out_c);
    }
}

static void products(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    if (d->out_c < EIGHT) {
        narrow(d, x, y);
        return;
    }
    groups(d, x, y, 0, d->out_c / EIGHT);
    if (d->out_c % EIGHT) { /* the last eight channels, some of them again */
        groups(d, x, y, d->out_c - EIGHT, 1);
    }
}

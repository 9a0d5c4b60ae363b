/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 2 pixels x 8 channels at a time; see dot.h for what is computed, dot_asm.h for how.
 * A piece of 16 inputs is 6 loads and 8 multiplies. The loop over pieces is entered in its middle (r9) where their number
 * is no multiple of UNROLL. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_asm.h"

#define UNROLL 8
#define PIECE_BYTES 56 /* of code */
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

#define PIECES                       \
    ".rept " TEXT(UNROLL) "\n"       \
    "vldrb.u8 q0, [r1], #16\n"       \
    "vldrb.u8 q1, [r3], #16\n"       \
    MULTIPLY("q0", "q1")             \
    ".endr\n"                        \
    "subs r7, #1\n"

static __attribute__((noinline)) void pairs(pillion_mve_pairs *s) {
    register pillion_mve_pairs *r0 __asm__("r0") = s;
    __asm__ volatile(
        "push {r7, r11}\n"
        "mov r11, r0\n"
        "ldr r2, [r11, #48]\n" /* bytes of code to skip */
        "adr.w r0, 2f\n"
        "add r0, r2\n"
        "adds r0, #1\n"
        "str r0, [r11, #32]\n"
        "adr.w r0, 3f\n"
        "add r0, r2\n"
        "adds r0, #1\n"
        "str r0, [r11, #48]\n"
        "0:\n" LOAD_STATE LOAD_MULTIPLIERS
        "1:\n" LOAD_BIAS
        "bx r9\n"
        ".p2align 2\n"
        "2:\n" PIECES
        "bne 2b\n" MOVE_SUMS("q4", "q5")
        "ldrd r1, r3, [r11, #4]\n"
        "ldrd r7, r9, [r11, #44]\n" LOAD_BIAS
        "bx r9\n"
        ".p2align 2\n"
        "3:\n" PIECES
        "bne 3b\n" MOVE_SUMS("q0", "q1") REQUANTIZE_AND_STORE
        "add r1, r8\n"
        "add r3, r8\n"
        "stm r11, {r0, r1, r3}\n"
        "cmp r0, r6\n"
        "bne 1b\n" NEXT_ROW_OR_GROUP("add r3, r2\n", "1b", "0b", "9f")
        "9:\n"
        "pop {r7, r11}\n"
        : "+r"(r0)
        :
        : DOT_CLOBBERS);
}

/* Some columns of all rows, for `groups` groups of channels from `channel` on. One column alone is done twice. */
static void columns(const pillion_mve_dot *d, const int8_t *x, int8_t *y, int32_t channel, int32_t groups, int32_t column,
                    int32_t count) {
    const int32_t lone = count & 1;
    const int32_t group_words = 18 + 32 * d->chunks;
    pillion_mve_pairs s;
    s.first_x0 = s.x0 = x + column * d->pixel_bytes;
    s.first_x1 = s.x1 = lone ? s.x0 : s.x0 + d->pixel_bytes;
    s.first_y = s.y = y + column * d->out_c + channel;
    s.y_step = lone ? 0 : d->out_c;
    s.first_row_end = s.row_end = s.y + count * s.y_step;
    s.x_step = 2 * d->pixel_bytes;
    s.x_skip = d->row_bytes - ((count + 1) >> 1) * s.x_step;
    s.y_row = d->pixels * d->out_c;
    s.y_skip = s.y_row - count * s.y_step;
    s.rows = s.rows_left = d->rows;
    s.groups_left = groups;
    s.group_bytes = group_words * 4;
    s.constants = d->constants + (channel + 7) / 8 * group_words + 8;
    s.out_zp = d->out_zp;
    s.one = 1;
    s.loops = s.loops_again = (d->chunks + UNROLL - 1) / UNROLL;
    s.odd_entry = (s.loops * UNROLL - d->chunks) * PIECE_BYTES;
    pairs(&s);
}

/* The pixels of an odd row in pairs: the last two again, or the only one twice. */
static void groups(const pillion_mve_dot *d, const int8_t *x, int8_t *y, int32_t channel, int32_t count) {
    if (d->pixels > 1) {
        columns(d, x, y, channel, count, 0, d->pixels & ~1);
    }
    if (d->pixels & 1) {
        columns(d, x, y, channel, count, d->pixels > 1 ? d->pixels - 2 : 0, d->pixels > 1 ? 2 : 1);
    }
}

/* Eight channels are written even where there are fewer: the surplus is overwritten by the next pixel, and the last
 * pixels go through a buffer. */
static void narrow(const pillion_mve_dot *d, const int8_t *x, int8_t *y) {
    int8_t last[8 * 8];
    pillion_mve_dot part = *d;
    part.rows = 1;
    for (int32_t row = 0; row < d->rows; row++, x += d->row_bytes, y += d->pixels * d->out_c) {
        const int32_t direct = d->pixels > 8 ? d->pixels - 8 : 0;
        part.pixels = direct;
        groups(&part, x, y, 0, 1);
        part.pixels = d->pixels - direct;
        groups(&part, x + direct * d->pixel_bytes, last, 0, 1);
        for (int32_t i = 0; i < part.pixels * d->out_c; i++) {
            y[direct * d->out_c + i] = last[i];
        }
    }
}

void pillion_mve_dot8(const pillion_mve_dot *d, const int8_t *x, int8_t *y) {
    if (d->out_c < 8) {
        narrow(d, x, y);
        return;
    }
    groups(d, x, y, 0, d->out_c / 8);
    if (d->out_c % 8) { /* the last eight channels, some of them again */
        groups(d, x, y, d->out_c - 8, 1);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Dot products of 2 pixels x 8 channels at a time; see dot.h.
 *
 * VMLADAVA adds 16 products to one even core register: eight of them hold 2 pixels x 4 channels (r0 r2 r4 r6: first
 * pixel, r8 r10 r12 lr: second), the odd ones are pointers (r1 r3: pixels, r5: constants) and counters. A piece of 16
 * input channels is 6 loads and 8 multiplies. It is done for the even, then for the odd channels of the group, so that
 * narrowing 32 -> 16 bits into bottom and top halves puts the channels into order. Then 16 outputs are requantized:
 * VQRDMULH rounds half up; VQDMLAH by 1 takes one off negative values, so that the rounding shift rounds half away from
 * zero. All that outlives a pair of pixels is in `state`, because no register is left.
 *
 * The loop over pieces is entered in its middle where their number is no multiple of UNROLL. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)

#define UNROLL 8
#define PIECE_BYTES 56 /* of code */
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

#define PIECE                        \
    "vldrb.u8 q0, [r1], #16\n"       \
    "vldrw.u32 q2, [r5], #16\n"      \
    "vldrb.u8 q1, [r3], #16\n"       \
    "vmladava.s8 r0, q0, q2\n"       \
    "vldrw.u32 q3, [r5], #16\n"      \
    "vmladava.s8 r8, q1, q2\n"       \
    "vmladava.s8 r2, q0, q3\n"       \
    "vldrw.u32 q2, [r5], #16\n"      \
    "vmladava.s8 r10, q1, q3\n"      \
    "vmladava.s8 r4, q0, q2\n"       \
    "vldrw.u32 q3, [r5], #16\n"      \
    "vmladava.s8 r12, q1, q2\n"      \
    "vmladava.s8 r6, q0, q3\n"       \
    "vmladava.s8 lr, q1, q3\n"

#define PIECES                       \
    ".rept " TEXT(UNROLL) "\n"       \
    PIECE                            \
    ".endr\n"                        \
    "subs r7, #1\n"

/* The order is that of the registers r0 r1 r3 r4 r5 r6 r7 r8 r9 r10 r12 in the LDM below. */
typedef struct {
    int8_t *y;
    const int8_t *x0, *x1;
    int32_t out_zp;
    const int32_t *constants;
    const int8_t *y_end;
    int32_t loops, x_step, even_entry, y_step, one;
    int32_t odd_loops, odd_entry;
} state;

/* One group of channels for pairs of pixels until y_end. */
static __attribute__((noinline)) void pairs(state *s) {
    register state *r0 __asm__("r0") = s;
    __asm__ volatile(
        "push {r7, r11}\n"
        "mov r11, r0\n"
        "ldrd r7, r9, [r11, #44]\n" /* r9: bytes of code to skip */
        "adr.w r0, 2f\n"
        "add r0, r9\n"
        "adds r0, #1\n"
        "str r0, [r11, #32]\n"
        "adr.w r0, 3f\n"
        "add r0, r9\n"
        "adds r0, #1\n"
        "str r0, [r11, #48]\n"
        "ldm r11, {r0, r1, r3, r4, r5, r6, r7, r8, r9, r10, r12}\n"
        "vldrw.u32 q6, [r5, #-32]\n" /* multipliers, even */
        "vldrw.u32 q7, [r5, #-16]\n" /* odd */
        "1:\n"
        "ldm r5, {r0, r2, r4, r6}\n"
        "ldm r5!, {r8, r10, r12, lr}\n"
        "bx r9\n"
        ".p2align 2\n"
        "2:\n" PIECES
        "bne 2b\n"
        "vmov q4[2], q4[0], r0, r4\n"
        "vmov q4[3], q4[1], r2, r6\n"
        "vmov q5[2], q5[0], r8, r12\n"
        "vmov q5[3], q5[1], r10, lr\n"
        "ldrd r1, r3, [r11, #4]\n"
        "ldrd r7, r9, [r11, #44]\n"
        "ldm r5, {r0, r2, r4, r6}\n"
        "ldm r5!, {r8, r10, r12, lr}\n"
        "bx r9\n"
        ".p2align 2\n"
        "3:\n" PIECES
        "bne 3b\n"
        "vldrb.s32 q2, [r5]\n" /* shifts, even */
        "vldrb.s32 q3, [r5, #4]\n"
        "vmov q0[2], q0[0], r0, r4\n"
        "vmov q0[3], q0[1], r2, r6\n"
        "vmov q1[2], q1[0], r8, r12\n"
        "vmov q1[3], q1[1], r10, lr\n"
        "ldm r11, {r0, r1, r3, r4, r5, r6, r7, r8, r9, r10, r12}\n"
        "vqrdmulh.s32 q4, q4, q6\n"
        "vqrdmulh.s32 q5, q5, q6\n"
        "vqrdmulh.s32 q0, q0, q7\n"
        "vqrdmulh.s32 q1, q1, q7\n"
        "vqdmlah.s32 q4, q4, r12\n"
        "vqdmlah.s32 q5, q5, r12\n"
        "vqdmlah.s32 q0, q0, r12\n"
        "vqdmlah.s32 q1, q1, r12\n"
        "vrshl.s32 q4, q4, q2\n"
        "vrshl.s32 q5, q5, q2\n"
        "vrshl.s32 q0, q0, q3\n"
        "vrshl.s32 q1, q1, q3\n"
        "vqmovnb.s32 q4, q4\n"
        "vqmovnb.s32 q5, q5\n"
        "vqmovnt.s32 q4, q0\n"
        "vqmovnt.s32 q5, q1\n"
        "vqadd.s16 q4, q4, r4\n"
        "vqadd.s16 q5, q5, r4\n"
        "vqmovnb.s16 q4, q4\n"
        "vqmovnb.s16 q5, q5\n"
        "vstrb.16 q4, [r0]\n"
        "add r0, r10\n"
        "vstrb.16 q5, [r0]\n"
        "add r0, r10\n"
        "add r1, r8\n"
        "add r3, r8\n"
        "stm r11, {r0, r1, r3}\n"
        "cmp r0, r6\n"
        "bne 1b\n"
        "pop {r7, r11}\n"
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6",
          "q7", "cc", "memory");
}

/* All pixels of one group of channels; y points to its first channel. An odd number: the last two again, or the only
 * one twice. */
static void group(state *s, const pillion_mve_dot *d, const int8_t *x, int8_t *y, int32_t pixels) {
    const int32_t skip = (s->odd_loops * UNROLL - d->chunks) * PIECE_BYTES;
    int32_t first = 0, even = pixels > 1 ? pixels & ~1 : 1;
    for (;;) {
        s->odd_entry = skip;
        s->x0 = x + first * d->pixel_bytes;
        s->x1 = pixels > 1 ? s->x0 + d->pixel_bytes : s->x0;
        s->y = y + first * d->out_c;
        s->y_step = pixels > 1 ? d->out_c : 0;
        s->y_end = pixels > 1 ? y + even * d->out_c : y;
        pairs(s);
        if (even >= pixels) {
            return;
        }
        even = pixels;
        first = pixels - 2;
    }
}

/* Eight channels are written even where there are fewer: the surplus is overwritten by the next pixel, and the last
 * pixels go through a buffer. */
static void narrow(state *s, const pillion_mve_dot *d, const int8_t *x, int8_t *y) {
    int8_t last[8 * 8];
    const int32_t direct = d->pixels > 8 ? d->pixels - 8 : 0;
    if (direct > 0) {
        group(s, d, x, y, direct);
    }
    group(s, d, x + direct * d->pixel_bytes, last, d->pixels - direct);
    for (int32_t i = 0; i < (d->pixels - direct) * d->out_c; i++) {
        y[direct * d->out_c + i] = last[i];
    }
}

void pillion_mve_dot_s8(const pillion_mve_dot *d, const int8_t *x, int8_t *y) {
    state s;
    s.out_zp = d->out_zp;
    s.one = 1;
    s.x_step = 2 * d->pixel_bytes;
    s.loops = s.odd_loops = (d->chunks + UNROLL - 1) / UNROLL;
    s.constants = d->constants + 8;
    if (d->out_c < 8) {
        narrow(&s, d, x, y);
        return;
    }
    for (int32_t first = 0; first < d->out_c; first += 8, s.constants += 18 + 32 * d->chunks) {
        const int32_t channel = first + 8 <= d->out_c ? first : d->out_c - 8;
        group(&s, d, x, y + channel, d->pixels);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Dot products of at most 16 inputs: a lane is a pixel; see dot.h. Who includes this defines PAIR(a, b, rounding), two channels to the lanes of
 * `a` and `b`.
 *
 * Four pixels stay in q0 to q3. A channel is one load of its 16 weights, four VMLADAV, and a requantization of the four
 * sums by scalars that one LDM has brought. Four channels, in the order 0 2 1 3, are narrowed into
 * bottom and top halves, which transposes them: each 32-bit lane is then four channels of a pixel, or two channels of 16 bits, and one
 * scattered store through the addresses in q7 writes them. Needs at least four pixels, words of channels, y aligned to 4.
 * Registers: r0 r2 r4 r6 sums, r1 constants, r3 bias, r5 multiplier, r7 shift, r8 1, the number of the sign fix, r9
 * blocks of pixels left, r10 words of channels, r11 the state, r12 zero point, lr words left; q0-q3 pixels, q4
 * weights, q5 q6 sums, q7 places in y. */
#ifndef PILLION_MVE_DOT_16_H
#define PILLION_MVE_DOT_16_H

#include "dot.h"
#include "pillion/assembly.h"

#define SUMS(q, weights)                        \
    "vmladav.s8 r0, q0, " weights "\n"          \
    "vmladav.s8 r2, q1, " weights "\n"          \
    "vmladav.s8 r4, q2, " weights "\n"          \
    "vmladav.s8 r6, q3, " weights "\n"          \
    "vmov " q "[2], " q "[0], r0, r4\n"         \
    "vmov " q "[3], " q "[1], r2, r6\n"
#define LOAD_NUMBERS "ldm r1!, {r3, r5, r7}\n"
#define REQUANTIZE_LANES(q, rounding)           \
    "vadd.i32 " q ", " q ", r3\n"               \
    "vqrdmulh.s32 " q ", " q ", r5\n"           \
    rounding(q)                                 \
    "vrshl.s32 " q ", r7\n"

/* A word of results of each pixel in q5. The last channel of four is made in q4, which has its weights until then. */
#ifndef WORD
#define EXACT(q) "vqdmlah.s32 " q ", " q ", r8\n"
#define RECTIFIED(q) ""
#define WORD(rounding)                          \
    PAIR("q5", "q6", rounding)                  \
    "vqmovnb.s32 q5, q5\n"                      \
    "vqmovnt.s32 q5, q6\n"                      \
    PAIR("q6", "q4", rounding)                  \
    "vqmovnb.s32 q6, q6\n"                      \
    "vqmovnt.s32 q6, q4\n"                      \
    "vqadd.s16 q5, q5, r12\n"                   \
    "vqadd.s16 q6, q6, r12\n"                   \
    "vqmovnb.s16 q5, q5\n"                      \
    "vqmovnt.s16 q5, q6\n"
#endif

typedef struct {
    const int8_t *x;
    const int32_t *constants;
    int32_t pixel_bytes;
    int32_t one, blocks, words, out_zp; /* r8 r9 r10 r12 */
    int32_t next_block;
    uint32_t y[4]; /* addresses, each 4 below its next word */
} state;
PILLION_FIELDS_AT(state, 0, x, constants, pixel_bytes, one, blocks, words, out_zp, next_block, y);

#define BLOCKS(name, word)                                                                                        \
    static __attribute__((noinline)) void name(state *s) {                                                        \
        register state *r0 __asm__("r0") = s;                                                                     \
        __asm__ volatile(                                                                                         \
            "push {r7, r11}\n"                                                                                    \
            "mov r11, r0\n"                                                                                       \
            "add r0, #12\n"                                                                                       \
            "ldm r0, {r8, r9, r10, r12}\n"                                                                        \
            "vldrw.u32 q7, [r11, #32]\n"                                                                          \
            "1:\n"                                                                                                \
            "ldm r11, {r0, r1, r2}\n"                                                                             \
            "vldrb.u8 q0, [r0]\n"                                                                                 \
            "add r0, r2\n"                                                                                        \
            "vldrb.u8 q1, [r0]\n"                                                                                 \
            "add r0, r2\n"                                                                                        \
            "vldrb.u8 q2, [r0]\n"                                                                                 \
            "add r0, r2\n"                                                                                        \
            "vldrb.u8 q3, [r0]\n"                                                                                 \
            "add r0, r2\n"                                                                                        \
            "str r0, [r11]\n"                                                                                     \
            "dls lr, r10\n"                                                                                       \
            "2:\n" word                                                                                           \
            "vstrw.32 q5, [q7, #4]!\n"                                                                            \
            "le lr, 2b\n"                                                                                         \
            "ldr r0, [r11, #28]\n"                                                                                \
            "vadd.i32 q7, q7, r0\n"                                                                               \
            "subs r9, #1\n"                                                                                       \
            "bne 1b\n"                                                                                            \
            "pop {r7, r11}\n"                                                                                     \
            : "+r"(r0)                                                                                            \
            :                                                                                                     \
            : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4",   \
              "q5", "q6", "q7", "cc", "memory");                                                                  \
    }

BLOCKS(blocks, WORD(EXACT))
BLOCKS(blocks_relu, WORD(RECTIFIED))

/* Some blocks of four pixels. */
static void from(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t pixel, int32_t count) {
    state s = {x + pixel * d->pixel_bytes, d->constants, d->pixel_bytes, 1, count, d->out_c >> 2, d->out_zp, 3 * d->out_c,
               {0}};
    const uint32_t address = (uint32_t)(uintptr_t)(y + pixel * d->out_c) - 4;
    for (int32_t i = 0; i < 4; i++) {
        s.y[i] = address + (uint32_t)(i * d->out_c);
    }
    (d->signs ? blocks_relu : blocks)(&s);
}

static inline void products(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    for (int32_t row = 0; row < d->rows; row++, x += d->row_bytes, y += d->pixels * d->out_c) {
        from(d, x, y, 0, d->pixels >> 2);
        if (d->pixels & 3) { /* the last four again */
            from(d, x, y, d->pixels - 4, 1);
        }
    }
}

#endif

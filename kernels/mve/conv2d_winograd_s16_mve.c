/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs that lie within 2^14 numbers with windows of 3x3, by Winograd's way (kernels/README.md): 16 products
 * for 2x2 results where the definition has 36. Two tiles of 4x4 inputs at a time meet four output channels at a time.
 *
 * A place is one of the 16 products of an input of a tile. Inputs are made into [8 channels][16 places][2 tiles][8] in scratch.
 * Places are pairs of a column and a row, each in the order sum, difference, first, last: of four numbers d0 to d3 these are d1 + d2, d2 - d1,
 * d0 - d2 and d3 - d1.
 * Registers of the products: r0 r2 r4 r6 sums of the first tile, r8 r10 r12 lr of the second, r1 inputs, r3 from the end of a place to the next one, r5
 * the stream, r7 the state, r9 jumps, r11 where sums go; q0 q1 inputs, q2-q5 weights. */
#include "pillion/assembly.h"
#include "pillion/mve.h"

#include <string.h>

#if defined(__ARM_FEATURE_MVE)

#define FAMILY "pillion_mve_winograd_16_"

enum {
    PLACES = 16,
    TILES = 2,  /* at a time */
    SIDE = 4,   /* inputs of a tile, in a row or column */
    RESULTS = 4 /* of a tile */
};

typedef struct {
    const int16_t *x;         /*  0: r1, where the inputs of a place begin, less 496 */
    int32_t back;             /*  4: r3, from the end of the inputs of a place to the next place */
    const int32_t *stream;    /*  8: r5 */
    const uint32_t *jumps;    /* 12: r9, what follows a place's first products */
    const int32_t *end;       /* 16: of the stream */
    uint32_t low, high;       /* 20: in both halves */
    int16_t *y[TILES][RESULTS]; /* 28: they move on by four channels */
    int32_t sums[PLACES][TILES][4];
} loop;
PILLION_FIELDS_AT(loop, 0, x, back, stream, jumps, end, low, high, y);
PILLION_AT(loop, sums, 60);

/* Products of eight channels. */
#define PRODUCTS(multiply)             \
    "vldrw.u32 q0, [r1, #496]!\n"      \
    "vldrw.u32 q1, [r1, #16]!\n"       \
    "vldrw.u32 q2, [r5], #16\n"        \
    multiply " r0, q0, q2\n"           \
    multiply " r8, q1, q2\n"           \
    "vldrw.u32 q3, [r5], #16\n"        \
    multiply " r2, q0, q3\n"           \
    multiply " r10, q1, q3\n"          \
    "vldrw.u32 q4, [r5], #16\n"        \
    multiply " r4, q0, q4\n"           \
    multiply " r12, q1, q4\n"          \
    "vldrw.u32 q5, [r5], #16\n"        \
    multiply " r6, q0, q5\n"           \
    multiply " lr, q1, q5\n"
#define MORE_PRODUCTS PRODUCTS("vmladava.s16")
#define MORE_BYTES 56
#define GO_ON "ldr pc, [r9], #4\n"
#define PLACE(name) ".global " FAMILY name "\n" FAMILY name ":\n"

#define LOAD(q, place) "vldrw.u32 " q ", [r0, #" place "]\n"
/* A column of four places becomes two rows: upper = (sum + difference) / 2 + first, lower = (sum - difference) / 2 + last. */
#define ROWS(upper, lower)             \
    "vhadd.s32 " upper ", q0, q1\n"    \
    "vhsub.s32 " lower ", q0, q1\n"    \
    "vadd.i32 " upper ", " upper ", q2\n" \
    "vadd.i32 " lower ", " lower ", q3\n"
#define ADD_ROWS(upper, lower)         \
    "vadd.i32 " upper ", " upper ", q6\n" \
    "vadd.i32 " lower ", " lower ", q7\n" \
    "vhadd.s32 q6, q4, q5\n"           \
    "vhsub.s32 q7, q4, q5\n"           \
    "vadd.i32 " upper ", " upper ", q6\n" \
    "vadd.i32 " lower ", " lower ", q7\n"
/* The results of a tile whose places lie behind r0, some bytes apart; its addresses lie behind r1. Lanes are channels. */
#define TILE_RESULTS                                                                       \
    LOAD("q0", "0") LOAD("q1", "32") LOAD("q2", "64") LOAD("q3", "96")                     \
    "vldrw.u32 q4, [r5]\n"                                                                 \
    "vadd.i32 q0, q0, q4\n" ROWS("q4", "q5")                                               \
    LOAD("q0", "128") LOAD("q1", "160") LOAD("q2", "192") LOAD("q3", "224") ROWS("q6", "q7") \
    "vhadd.s32 q0, q4, q6\n"                                                               \
    "vhsub.s32 q1, q4, q6\n"                                                               \
    "vhadd.s32 q2, q5, q7\n"                                                               \
    "vhsub.s32 q3, q5, q7\n"                                                               \
    LOAD("q4", "256") LOAD("q5", "288") LOAD("q6", "320") LOAD("q7", "352") ADD_ROWS("q0", "q2") \
    LOAD("q4", "384") LOAD("q5", "416") LOAD("q6", "448") LOAD("q7", "480") ADD_ROWS("q1", "q3") \
    "vldrw.u32 q4, [r5, #16]\n"                                                            \
    "vqrdmulh.s32 q0, q0, q4\n"                                                            \
    "vqrdmulh.s32 q1, q1, q4\n"                                                            \
    "vqrdmulh.s32 q2, q2, q4\n"                                                            \
    "vqrdmulh.s32 q3, q3, q4\n"                                                            \
    "ldrd r2, r3, [r7, #20]\n"                                                             \
    "vdup.32 q5, r2\n"                                                                     \
    "vdup.32 q6, r3\n"                                                                     \
    "ldmia r1, {r2, r3, r4, r6}\n"                                                         \
    TWO_RESULTS("q0", "q1", "r2", "r3") TWO_RESULTS("q2", "q3", "r4", "r6")                \
    "stmia r1!, {r2, r3, r4, r6}\n"
#define TWO_RESULTS(left, right, to_left, to_right) \
    "vqmovnb.s32 " left ", " left "\n"         \
    "vqmovnt.s32 " left ", " right "\n"        \
    "vmax.s16 " left ", " left ", q5\n"        \
    "vmin.s16 " left ", " left ", q6\n"        \
    "vstrh.32 " left ", [" to_left "], #8\n"   \
    "vshr.u32 " left ", " left ", #16\n"       \
    "vstrh.32 " left ", [" to_right "], #8\n"

/* All channels of the results of two tiles. */
PILLION_NAKED static void multiply(PILLION_UNUSED loop *s) {
    __asm volatile("push {r4-r11, lr}\n"
                   "vpush {d8-d15}\n"
                   "mov r7, r0\n"
                   "ldr r5, [r7, #8]\n"
                   "1:\n"
                   "ldrd r1, r3, [r7]\n"
                   "ldr r9, [r7, #12]\n"
                   "add r11, r7, #60\n" PLACE("first") PRODUCTS("vmladav.s16") GO_ON
                   ".balign 4\n" PLACE("more") PILLION_REPEAT(FAMILY "more", 8, MORE_BYTES, MORE_PRODUCTS) GO_ON
                   PLACE("next")
                   "stmia r11!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
                   "add r1, r1, r3\n"
                   PRODUCTS("vmladav.s16") GO_ON
                   PLACE("results")
                   "stmia r11!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
                   "add r0, r7, #60\n"
                   "add r1, r7, #28\n" TILE_RESULTS
                   "add r0, r0, #16\n" TILE_RESULTS
                   "ldr r0, [r7, #16]\n"
                   "add r5, r5, #32\n"
                   "cmp r5, r0\n"
                   "bne.w 1b\n"
                   "vpop {d8-d15}\n"
                   "pop {r4-r11, pc}\n");
}

extern const uint8_t pillion_mve_winograd_16_more[], pillion_mve_winograd_16_next[], pillion_mve_winograd_16_results[];

/* What follows the first products of each place, with so many vectors of channels. */
static uint32_t *list_jumps(uint32_t *jump, int32_t vectors) {
    const uint32_t more = pillion_thumb(pillion_mve_winograd_16_more);
    for (int32_t place = 0; place < PLACES; place++) {
        int32_t left = vectors - 1;
        if (left & 7) {
            *jump++ = more + (uint32_t)((8 - (left & 7)) * MORE_BYTES);
        }
        for (left >>= 3; left > 0; left--) {
            *jump++ = more;
        }
        *jump++ = pillion_thumb(place < PLACES - 1 ? pillion_mve_winograd_16_next : pillion_mve_winograd_16_results);
    }
    return jump;
}

/* Of two numbers of four rows, in q0-q3 and q4-q7, r3-r6 and r7-r10 are the places. */
#define TWO_COLUMNS                    \
    "vldrw.u32 q0, [r3], #16\n"        \
    "vldrw.u32 q1, [r4], #16\n"        \
    "vldrw.u32 q2, [r5], #16\n"        \
    "vldrw.u32 q3, [r6], #16\n"        \
    "vldrw.u32 q4, [r7], #16\n"        \
    "vldrw.u32 q5, [r8], #16\n"        \
    "vldrw.u32 q6, [r9], #16\n"        \
    "vldrw.u32 q7, [r10], #16\n"
/* Four rows of a column that a difference makes; the places of their differences. `a` to `d` are rows 0 to 3, `b` less `d` is not needed. */
#define PLACES_OF_ROWS(a, b, c, d, of_sum, of_difference, of_first, of_last, center) \
    "vsub.i16 " a ", " a ", " c "\n"           \
    "vsub.i16 " d ", " d ", " b "\n"           \
    "vstrw.32 " a ", [r1, #" of_first "]\n"    \
    "vadd.i16 " a ", " b ", " c "\n"           \
    "vsub.i16 " c ", " c ", " b "\n" center    \
    "vstrw.32 " d ", [r1, #" of_last "]\n"     \
    "vstrw.32 " a ", [r1, #" of_sum "]\n"      \
    "vstrw.32 " c ", [r1, #" of_difference "]\n"
#define EACH_VECTOR(body)              \
    "dls lr, r2\n"                     \
    "1:\n" TWO_COLUMNS body            \
    "add r1, r1, #512\n"               \
    "le lr, 1b\n"

/* Makes the inputs of a tile from 16 pixels, column by column, in the order 3 1 2 0. */
PILLION_NAKED static void make_inputs(PILLION_UNUSED const int16_t *const *pixels, PILLION_UNUSED int16_t *to,
                                      PILLION_UNUSED int32_t vectors, PILLION_UNUSED int32_t center) {
    __asm volatile("push {r4-r11, lr}\n"
                   "vpush {d8-d15}\n"
                   "mov r12, r3\n"
                   "mov r11, r1\n"
                   "ldmia r0, {r3-r10}\n" /* columns 3 and 1 */
                   EACH_VECTOR(
                   "vsub.i16 q0, q0, q4\n"
                   "vsub.i16 q1, q1, q5\n"
                   "vsub.i16 q2, q2, q6\n"
                   "vsub.i16 q3, q3, q7\n"
                   PLACES_OF_ROWS("q0", "q1", "q2", "q3", "384", "416", "448", "480", ""))
                   "add r0, r0, #16\n"
                   "mov r1, r11\n"
                   "ldmia r0, {r3-r10}\n" /* columns 1 and 2 */
                   EACH_VECTOR(
                   "vadd.i16 q0, q0, q4\n" /* q0 the sum, q4 the difference: twice column 2, less the sum */
                   "vadd.i16 q1, q1, q5\n"
                   "vadd.i16 q2, q2, q6\n"
                   "vadd.i16 q3, q3, q7\n"
                   "vshl.i16 q4, q4, #1\n"
                   "vshl.i16 q5, q5, #1\n"
                   "vshl.i16 q6, q6, #1\n"
                   "vshl.i16 q7, q7, #1\n"
                   "vsub.i16 q4, q4, q0\n"
                   "vsub.i16 q5, q5, q1\n"
                   "vsub.i16 q6, q6, q2\n"
                   "vsub.i16 q7, q7, q3\n"
                   PLACES_OF_ROWS("q0", "q1", "q2", "q3", "0", "32", "64", "96", "vadd.i16 q0, q0, r12\n")
                   PLACES_OF_ROWS("q4", "q5", "q6", "q7", "128", "160", "192", "224", ""))
                   "add r0, r0, #16\n"
                   "mov r1, r11\n"
                   "ldmia r0, {r3-r10}\n" /* columns 2 and 0 */
                   EACH_VECTOR(
                   "vsub.i16 q0, q4, q0\n"
                   "vsub.i16 q1, q5, q1\n"
                   "vsub.i16 q2, q6, q2\n"
                   "vsub.i16 q3, q7, q3\n"
                   PLACES_OF_ROWS("q0", "q1", "q2", "q3", "256", "288", "320", "352", ""))
                   "vpop {d8-d15}\n"
                   "pop {r4-r11, pc}\n");
}

/* Where things lie in scratch, and which tile comes next. */
typedef struct {
    const pillion_conv2d_winograd_s16_mve_params *p;
    int16_t *inputs, *zeros, *nowhere; /* of two tiles; a pixel outside of the image, and one for results there */
    const int16_t *image;
    int16_t *y;
    int32_t vectors;               /* of a pixel */
    int32_t row, column;           /* of the next tile's results */
    int32_t distances[SIDE * SIDE]; /* in bytes, from a tile's first pixel */
} tiles;

static const int32_t columns[SIDE] = {3, 1, 2, 0};

/* The 16 pixels of a tile, some of them outside the image. */
static void list_pixels(const tiles *t, int32_t top, int32_t left, const int16_t **pixels) {
    const pillion_conv2d_winograd_s16_mve_params *const p = t->p;
    const int16_t *const x = t->image + (top * p->in_w + left) * p->in_c;
    const int32_t *distances = t->distances;
    int32_t rows[SIDE]; /* that a column has */
    const int32_t *ends = rows;
    for (int32_t i = 0; i < SIDE; i++) {
        rows[i] = (uint32_t)(left + columns[i]) < (uint32_t)p->in_w ? p->in_h : 0;
    }
    __asm__ volatile("vdup.32 q2, %[zeros]\n"
                     "vidup.u32 q1, %[top], #1\n"
                     "mov lr, #4\n"
                     "1:\n"
                     "vldrw.u32 q0, [%[distances]], #16\n"
                     "ldr r12, [%[ends]], #4\n"
                     "vadd.i32 q0, q0, %[x]\n"
                     "vcmp.u32 cs, q1, r12\n"
                     "vpsel q0, q2, q0\n"
                     "vstrw.32 q0, [%[pixels]], #16\n"
                     "le lr, 1b\n"
                     : [distances] "+&l"(distances), [pixels] "+&l"(pixels), [ends] "+&r"(ends), [top] "+&Te"(top)
                     : [x] "r"(x), [zeros] "r"(t->zeros)
                     : "r12", "lr", "q0", "q1", "q2", "cc", "memory");
}

static void prepare_tile(tiles *t, int16_t *to, int16_t **y) {
    const pillion_conv2d_winograd_s16_mve_params *const p = t->p;
    const int16_t *pixels[SIDE * SIDE];
    list_pixels(t, t->row - p->pad_top, t->column - p->pad_left, pixels);
    make_inputs(pixels, to, t->vectors, p->center);
    const int below = t->row + 1 < p->out_h, beside = t->column + 1 < p->out_w;
    y[0] = t->y + (t->row * p->out_w + t->column) * p->out_c;
    y[1] = beside ? y[0] + p->out_c : t->nowhere;
    y[2] = below ? y[0] + p->out_w * p->out_c : t->nowhere;
    y[3] = below && beside ? y[2] + p->out_c : t->nowhere;
    t->column += 2;
    if (t->column >= p->out_w) {
        t->column = 0, t->row += 2;
    }
    if (t->row >= p->out_h) {
        t->row = 0;
        t->image += p->in_h * p->in_w * p->in_c, t->y += p->out_h * p->out_w * p->out_c;
    }
}

/* A number in both halves of a word. */
static uint32_t twice(int32_t number) {
    return ((uint32_t)number & 0xffff) * 0x10001u;
}

void pillion_conv2d_winograd_s16_mve(const pillion_conv2d_winograd_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    tiles t = {.p = p, .inputs = scratch, .image = x, .y = y, .vectors = (int32_t)((uint32_t)p->in_c / 8)};
    uint32_t *const jumps = (uint32_t *)(void *)(t.inputs + PLACES * TILES * p->in_c);
    loop s = {.x = t.inputs - 248, .back = 32 - 512 * t.vectors, .stream = p->stream, .jumps = jumps, .low = twice(p->low), .high = twice(p->high)};
    s.end = p->stream + (int32_t)((uint32_t)p->out_c / 4) * (PLACES * 16 * t.vectors + 8);
    t.zeros = (int16_t *)(void *)list_jumps(jumps, t.vectors);
    t.nowhere = t.zeros + p->in_c;
    memset(t.zeros, 0, (size_t)(2 * p->in_c));
    for (int32_t i = 0; i < SIDE * SIDE; i++) {
        t.distances[i] = 2 * ((i & 3) * p->in_w + columns[i >> 2]) * p->in_c;
    }
    int32_t left = p->batch * ((p->out_h + 1) >> 1) * ((p->out_w + 1) >> 1);
    for (; left > 0; left -= TILES) {
        prepare_tile(&t, t.inputs, s.y[0]);
        if (left > 1) {
            prepare_tile(&t, t.inputs + 8, s.y[1]);
        } else {
            s.y[1][0] = s.y[1][1] = s.y[1][2] = s.y[1][3] = t.nowhere;
        }
        multiply(&s);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs that lie within 2^15 numbers with windows of 3x3, by Winograd's way along rows (README.md): four products for two results
 * where the definition has six. A tile is two columns of results and some rows of them, which share what becomes of their inputs.
 *
 * Sums are twice as large as usual, and may wrap around until they are complete.
 * Registers: those of winograd_steps.h; on the stack six sums, then the fields of `loop`. */
#define FAMILY "pillion_dsp_winograd_16_"
#include "dot16.h"
#include "winograd_steps.h"

#if PILLION_HAS_DSP

enum {
    PLACES = 4,  /* products of an input of a tile */
    TILES = 3,   /* at a time */
    COLUMNS = 2, /* results of a tile in a row */
    ROWS = 4,    /* of results of a tile, at most */
    WIDTH = 4    /* inputs of a tile in a row */
};

typedef struct {
    const int32_t *x;
    const uint32_t *jumps;
    int32_t skip; /* from the end of three rows of inputs of a place to the next place, in bytes */
    const int32_t *stream_end;
    int16_t *y[COLUMNS * TILES]; /* they move on by two channels */
} loop;
PILLION_FIELDS_AT(loop, 0, x, jumps, skip, stream_end);
PILLION_AT(loop, y, 16);
PILLION_BYTES(loop, 40);

/* Six sums, those of a channel by its factor. */
#define RESULTS(saturate)                                                                                          \
    "ldrd r4, r5, [r12], #8\n"                                                                                     \
    ROUND_16(saturate, "r6", "r4") ROUND_16(saturate, "r7", "r4") ROUND_16(saturate, "r8", "r4")                   \
    ROUND_16(saturate, "r9", "r5") ROUND_16(saturate, "r10", "r5") ROUND_16(saturate, "r11", "r5") GO_ON
#define WRITE(place)                   \
    "add r4, sp, #" place "\n"         \
    "ldmia r4, {r1-r3}\n"              \
    "strh r9, [r1, #2]\n"              \
    "strh r10, [r2, #2]\n"             \
    "strh r11, [r3, #2]\n"             \
    "strh r6, [r1], #4\n"              \
    "strh r7, [r2], #4\n"              \
    "strh r8, [r3], #4\n"              \
    "stmia r4, {r1-r3}\n"
#define NEXT_PLACE                     \
    "ldr r1, [sp, #32]\n"              \
    "add r0, r0, r1\n"

/* All channels of a row of three tiles. */
PILLION_NAKED static void multiply(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *stream) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r12, r1\n"
                   "ldmia r0, {r1-r10}\n"
                   "push {r1-r10}\n"
                   "sub sp, sp, #24\n"
                   "1:\n"
                   "ldrd r0, lr, [sp, #24]\n"
                   "ldrd r8, r11, [r12], #8\n" FIRST_STEP_WITH_BIAS
                   STEPS
                   PLACE("second") STORE_FIRST NEXT_PLACE FIRST_STEP
                   PLACE("join") SUMS_AND_DIFFERENCES NEXT_PLACE GO_ON
                   PLACE("signed") RESULTS(SIGNED)
                   PLACE("rectified") RESULTS(RECTIFIED)
                   PLACE("left") WRITE("40") LOAD_FIRST NEXT_PLACE GO_ON
                   PLACE("right") WRITE("52")
                   "ldr r1, [sp, #36]\n"
                   "cmp r12, r1\n"
                   "bne.w 1b\n"
                   "add sp, sp, #64\n"
                   "pop {r4-r11, pc}\n");
}

extern const uint8_t pillion_dsp_winograd_16_steps[], pillion_dsp_winograd_16_second[], pillion_dsp_winograd_16_join[],
    pillion_dsp_winograd_16_signed[], pillion_dsp_winograd_16_rectified[], pillion_dsp_winograd_16_left[], pillion_dsp_winograd_16_right[];

/* The list of jumps: the first step of two places is made already. */
static uint32_t *list_jumps(uint32_t *jump, int32_t steps, int32_t is_rectified) {
    const uint8_t *const code = pillion_dsp_winograd_16_steps;
    const uint32_t results = pillion_thumb(is_rectified ? pillion_dsp_winograd_16_rectified : pillion_dsp_winograd_16_signed);
    jump = list_steps(jump, code, steps - 1);
    *jump++ = pillion_thumb(pillion_dsp_winograd_16_second);
    jump = list_steps(jump, code, steps - 1);
    *jump++ = pillion_thumb(pillion_dsp_winograd_16_join);
    jump = list_steps(jump, code, steps);
    *jump++ = results, *jump++ = pillion_thumb(pillion_dsp_winograd_16_left);
    jump = list_steps(jump, code, steps);
    *jump++ = results, *jump++ = pillion_thumb(pillion_dsp_winograd_16_right);
    return jump;
}

/* Two channels of four inputs d0 to d3 become d1 + d2 + center, d2 - d1, d0 - d2 and d3 - d1. r4-r7 inputs, r1 to, r2 from place to place, r12 three
 * times that, r3 the center. */
#define TWO_CHANNELS                   \
    "ldr r8, [r4], #4\n"               \
    "ldr r9, [r5], #4\n"               \
    "ldr r10, [r6], #4\n"              \
    "ldr r11, [r7], #4\n"              \
    "ssub16 r8, r8, r10\n"             \
    "ssub16 r11, r11, r9\n"            \
    "str r8, [r1, r2, lsl #1]\n"       \
    "sadd16 r8, r9, r10\n"             \
    "ssub16 r10, r10, r9\n"            \
    "sadd16 r8, r8, r3\n"              \
    "str r11, [r1, r12]\n"             \
    "str r10, [r1, r2]\n"              \
    "str r8, [r1], #12\n"

/* Makes the inputs of a tile: of each row of it four pixels, and of these so many times four channels. */
PILLION_NAKED static void make_inputs(PILLION_UNUSED const int16_t *const *pixels, PILLION_UNUSED int32_t *to, PILLION_UNUSED int32_t place,
                                      PILLION_UNUSED int32_t center, PILLION_UNUSED int32_t fours, PILLION_UNUSED const int16_t *const *end) {
    __asm volatile("push {r4-r11, lr}\n"
                   "add r12, r2, r2, lsl #1\n"
                   "1:\n"
                   "ldmia r0!, {r4-r7}\n"
                   "ldr lr, [sp, #36]\n"
                   "2:\n" TWO_CHANNELS TWO_CHANNELS
                   "subs lr, lr, #1\n"
                   "bne 2b\n"
                   "ldr lr, [sp, #40]\n"
                   "cmp r0, lr\n"
                   "bne 1b\n"
                   "pop {r4-r11, pc}\n");
}

/* Where things lie in scratch, and which tile comes next. */
typedef struct {
    const pillion_conv2d_winograd_s16_dsp_params *p;
    int32_t *inputs;
    int16_t *zeros, *nowhere; /* a pixel outside of the image, and one for results there */
    const int16_t *image;
    int16_t *y;
    int32_t rows, row_words;  /* of a tile; of two channels of three tiles in a row */
    int32_t row, column;      /* of the next tile's results */
} tiles;

/* The results of a tile: how many rows, and where. */
typedef struct {
    int16_t *y;
    int32_t rows, has_right;
} results;

static const int16_t **list_pixels(const tiles *t, int32_t rows, const int16_t **pixels) {
    const pillion_conv2d_winograd_s16_dsp_params *const p = t->p;
    const int32_t left = t->column - p->pad_left, in_w = p->in_w, in_c = p->in_c;
    const int16_t *x = t->image + ((t->row - p->pad_top) * in_w + left) * in_c;
    for (int32_t row = t->row - p->pad_top; rows > 0; rows--, row++, x += in_w * in_c) {
        const int32_t width = (uint32_t)row < (uint32_t)p->in_h ? in_w : 0;
        for (int32_t i = 0; i < WIDTH; i++) {
            *pixels++ = (uint32_t)(left + i) < (uint32_t)width ? x + i * in_c : t->zeros;
        }
    }
    return pixels;
}

static void next_tile(tiles *t) {
    const pillion_conv2d_winograd_s16_dsp_params *const p = t->p;
    t->column += COLUMNS;
    if (t->column >= p->out_w) {
        t->column = 0, t->row += t->rows;
    }
    if (t->row >= p->out_h) {
        t->row = 0;
        t->image += p->in_h * p->in_w * p->in_c, t->y += p->out_h * p->out_w * p->out_c;
    }
}

static results prepare_tile(tiles *t, int32_t *to) {
    const pillion_conv2d_winograd_s16_dsp_params *const p = t->p;
    const int32_t below = p->out_h - t->row, rows = below < t->rows ? below : t->rows;
    const int16_t *pixels[(ROWS + 2) * WIDTH];
    const int16_t **const end = list_pixels(t, rows + 2, pixels);
    make_inputs(pixels, to, 4 * (t->rows + 2) * t->row_words, p->center, (int32_t)((uint32_t)p->in_c / 4), end);
    const results of_tile = {t->y + (t->row * p->out_w + t->column) * p->out_c, rows, t->column + 1 < p->out_w};
    next_tile(t);
    return of_tile;
}

/* Three tiles. Where fewer are left, the results of the others, of no matter, go nowhere. */
static void convolve_tiles(tiles *t, loop *s, int32_t left) {
    const pillion_conv2d_winograd_s16_dsp_params *const p = t->p;
    results of[TILES] = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    int32_t rows = 0;
    for (int32_t i = 0; i < TILES && i < left; i++) {
        of[i] = prepare_tile(t, t->inputs + i);
        rows = of[i].rows > rows ? of[i].rows : rows;
    }
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < TILES; i++) {
            const int32_t is_inside = row < of[i].rows;
            s->y[i] = is_inside ? of[i].y : t->nowhere;
            s->y[i + TILES] = is_inside && of[i].has_right ? of[i].y + p->out_c : t->nowhere;
            of[i].y += p->out_w * p->out_c;
        }
        s->x = t->inputs + row * t->row_words;
        multiply(s, p->stream);
    }
}

void pillion_conv2d_winograd_s16_dsp(const pillion_conv2d_winograd_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t pairs = (int32_t)((uint32_t)p->in_c / 2), is_rectified = pillion_dsp_is_rectified(p->low, p->high);
    const int32_t blocks = (p->out_h + ROWS - 1) / ROWS, rows = (p->out_h + blocks - 1) / blocks;
    tiles t = {.p = p, .inputs = scratch, .image = x, .y = y, .rows = rows, .row_words = pairs * TILES};
    uint32_t *const jumps = (uint32_t *)(t.inputs + PLACES * (rows + 2) * t.row_words);
    loop s = {.jumps = jumps, .skip = 4 * (rows - 1) * t.row_words};
    s.stream_end = p->stream + (int32_t)((uint32_t)p->out_c / 2) * (2 * PLACES * 3 * pairs + 6);
    t.zeros = (int16_t *)(void *)list_jumps(jumps, 3 * pairs, is_rectified);
    t.nowhere = t.zeros + p->in_c;
    memset(t.zeros, 0, (size_t)(2 * p->in_c));
    int32_t left = p->batch * ((p->out_h + rows - 1) / rows) * ((p->out_w + 1) >> 1);
    for (; left > 0; left -= TILES) {
        convolve_tiles(&t, &s, left);
    }
    if (!is_rectified) {
        pillion_dsp_clamp_16(y, p->batch * p->out_h * p->out_w * p->out_c, p->low, p->high);
    }
}
#endif

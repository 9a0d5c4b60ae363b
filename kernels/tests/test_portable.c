/* SPDX-License-Identifier: Apache-2.0
 * The portable kernels against the textbook: loops that are too plain to be wrong. Needs nothing but a C compiler.
 * (All ops, with all their corners, are compared with the compiler's own reference by tests/kernels/test_portable.py.) */
#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "pillion/rounding.h"

#include <stdio.h>
#include <stdlib.h>

static int checks, failures;

static void check(int ok, const char *what, int32_t case_number) {
    checks++;
    if (!ok) {
        failures++;
        fprintf(stderr, "%s: case %d differs\n", what, (int)case_number);
    }
}

static int32_t random_in(int32_t low, int32_t high) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (int32_t)((state >> 33) % (uint64_t)((int64_t)high - low + 1));
}

/* Memory that a sanitizer guards on both sides. */
static void *block(size_t size) {
    void *memory = malloc(size > 0 ? size : 1);
    if (memory == NULL) {
        exit(2);
    }
    return memory;
}

static int8_t *random_bytes(int32_t count) {
    int8_t *bytes = block((size_t)count);
    for (int32_t i = 0; i < count; i++) {
        bytes[i] = (int8_t)random_in(-128, 127);
    }
    return bytes;
}

static int32_t *random_words(int32_t count, int32_t low, int32_t high) {
    int32_t *words = block(sizeof(int32_t) * (size_t)count);
    for (int32_t i = 0; i < count; i++) {
        words[i] = random_in(low, high);
    }
    return words;
}

/* ---- rounding ---- */

static int64_t floor_divide(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

static int32_t textbook_requantize(int32_t value, int32_t multiplier, int32_t shift) {
    const int64_t left = (int64_t)1 << (shift > 0 ? shift : 0), right = (int64_t)1 << (shift > 0 ? 0 : -shift);
    const int32_t wrapped = (int32_t)(uint32_t)((uint64_t)value * (uint64_t)left);
    const int64_t high = floor_divide((int64_t)wrapped * multiplier + (1 << 30), INT64_C(1) << 31);
    const int64_t magnitude = ((high < 0 ? -high : high) * 2 + right) / (2 * right);
    return (int32_t)(high < 0 ? -magnitude : magnitude);
}

static void test_requantize(void) {
    const int32_t values[] = {0, 1, -1, 3, -3, 127, -128, INT32_MAX, INT32_MIN, INT32_MIN + 1};
    for (int32_t i = 0; i < 100000; i++) {
        const int32_t value = i % 3 == 0 ? values[random_in(0, 9)] : random_in(-(1 << 20), 1 << 20);
        const int32_t multiplier = i % 2 == 0 ? 1 << 30 : random_in(1 << 30, INT32_MAX), shift = random_in(-31, 8);
        const int32_t wanted = textbook_requantize(value, multiplier, shift);
        check(pillion_requantize(value, multiplier, shift) == wanted, "requantize", i);
    }
}

static void test_nearest(void) {
    for (int32_t quarters = -2000; quarters <= 2000; quarters++) {
        const float real = (float)quarters / 4;
        const int32_t whole = quarters / 4, rest = quarters % 4, away = quarters < 0 ? -1 : 1;
        const int32_t is_beyond = rest * away > 2, is_tie = rest * away == 2;
        const int32_t even = whole + (is_beyond || (is_tie && whole % 2 != 0) ? away : 0);
        const int32_t from_zero = whole + (is_beyond || is_tie ? away : 0);
        check(pillion_nearest(real, 1) == even, "nearest, ties to even", quarters);
        check(pillion_nearest(real, 0) == from_zero, "nearest, ties away from zero", quarters);
        check(pillion_nearest_to_double((double)real) == from_zero, "nearest to a double", quarters);
    }
}

/* ---- convolution ---- */

typedef struct {
    pillion_conv2d_s8_params p;
    const int8_t *plain; /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;
} convolution;

static int8_t textbook_pixel(const convolution *c, const int8_t *x, int32_t oy, int32_t ox, int32_t oc) {
    const pillion_conv2d_s8_params *p = &c->p;
    const int32_t depth = p->in_c / p->groups, first = oc / (p->out_c / p->groups) * depth;
    int32_t sum = c->bias[oc];
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t row = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
            const int32_t column = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            for (int32_t i = 0; row >= 0 && row < p->in_h && column >= 0 && column < p->in_w && i < depth; i++) {
                const int32_t weight = c->plain[((oc * p->kernel_h + ky) * p->kernel_w + kx) * depth + i];
                sum += (x[(row * p->in_w + column) * p->in_c + first + i] - p->in_zp) * weight;
            }
        }
    }
    const int32_t scaled = textbook_requantize(sum, p->multiplier[oc], p->shift[oc]) + p->out_zp;
    return (int8_t)(scaled < p->low ? p->low : (scaled > p->high ? p->high : scaled));
}

/* As dot.h wants them: in fours, interleaved over the channels of a group, inputs counted from -128. */
static void pack(convolution *c) {
    pillion_conv2d_s8_params *p = &c->p;
    const int32_t inputs = p->kernel_h * p->kernel_w * p->in_c / p->groups, fours = (inputs + 3) / 4;
    const int32_t channels = p->out_c / p->groups;
    int8_t *weights = block((size_t)(4 * fours * p->out_c));
    int32_t *bias = block(sizeof(int32_t) * (size_t)p->out_c);
    for (int32_t oc = 0; oc < p->out_c; oc++) {
        int8_t *const group = weights + oc / channels * 4 * fours * channels;
        bias[oc] = c->bias[oc];
        for (int32_t k = 0; k < 4 * fours; k++) {
            const int8_t weight = (int8_t)(k < inputs ? c->plain[oc * inputs + k] : 0);
            group[(k / 4 * channels + oc % channels) * 4 + k % 4] = weight;
            bias[oc] -= (p->in_zp + 128) * weight;
        }
    }
    p->weights = weights;
    p->bias = bias;
}

static convolution random_convolution(void) {
    pillion_conv2d_s8_params p = {.batch = 1, .groups = random_in(1, 2),
                                  .in_h = random_in(1, 7), .in_w = random_in(1, 7),
                                  .stride_h = random_in(1, 2), .stride_w = random_in(1, 2),
                                  .dilation_h = random_in(1, 2), .dilation_w = random_in(1, 2),
                                  .pad_top = random_in(0, 2), .pad_left = random_in(0, 2),
                                  .in_zp = random_in(-128, 127), .out_zp = random_in(-128, 127),
                                  .low = random_in(-128, 0), .high = random_in(0, 127)};
    p.in_c = p.groups * random_in(1, 9);
    p.out_c = p.groups * random_in(1, 40);
    p.kernel_h = random_in(1, 3);
    p.kernel_w = random_in(1, 3);
    p.out_h = (p.in_h + 2 * p.pad_top - 1) / p.stride_h + 1; /* some windows are outside altogether */
    p.out_w = (p.in_w + 2 * p.pad_left - 1) / p.stride_w + 1;
    p.multiplier = random_words(p.out_c, 1 << 30, INT32_MAX);
    p.shift = random_words(p.out_c, -9, -5);
    const int32_t weights = p.out_c * p.kernel_h * p.kernel_w * p.in_c / p.groups;
    convolution c = {p, random_bytes(weights), random_words(p.out_c, -999, 999)};
    pack(&c);
    return c;
}

static void test_conv2d(void) {
    for (int32_t n = 0; n < 300; n++) {
        const convolution c = random_convolution();
        const pillion_conv2d_s8_params *p = &c.p;
        int8_t *const x = random_bytes(p->in_h * p->in_w * p->in_c);
        int8_t *const y = block((size_t)(p->out_h * p->out_w * p->out_c));
        void *const scratch = block((size_t)((p->kernel_h * p->kernel_w * p->in_c / p->groups + 3) / 4 * 4));
        pillion_conv2d_s8(p, x, y, scratch);
        int ok = 1;
        for (int32_t i = 0; i < p->out_h * p->out_w * p->out_c; i++) {
            const int32_t pixel = i / p->out_c;
            ok &= y[i] == textbook_pixel(&c, x, pixel / p->out_w, pixel % p->out_w, i % p->out_c);
        }
        check(ok, "conv2d", n);
        const void *const blocks[] = {x, y, scratch, c.plain, c.bias, p->weights, p->bias, p->multiplier, p->shift};
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            free((void *)(uintptr_t)blocks[i]);
        }
    }
}

/* ---- movement ---- */

static void test_transposed_copy(void) {
    const int32_t none[] = {0};
    for (int32_t n = 0; n < 50; n++) {
        const int32_t rows = random_in(1, 9), columns = random_in(1, 9), size = 1 << random_in(0, 2);
        const int32_t extent[] = {columns}, x_row_step[] = {size}, y_row_step[] = {rows * size};
        const pillion_strided_copy_params p = {.rows = columns, .count = rows, .element_bytes = size,
                                               .x_step = columns * size, .y_step = size,
                                               .axes = columns > 1, .extent = columns > 1 ? extent : none,
                                               .x_row_step = x_row_step, .y_row_step = y_row_step};
        int8_t *const x = random_bytes(rows * columns * size), *const y = block((size_t)(rows * columns * size));
        pillion_strided_copy(&p, x, y, NULL);
        int ok = 1;
        for (int32_t i = 0; i < rows * columns * size; i++) {
            const int32_t element = i / size, row = element / columns, column = element % columns;
            ok &= y[(column * rows + row) * size + i % size] == x[i];
        }
        check(ok, "strided_copy", n);
        free(x);
        free(y);
    }
}

/* Only damaged programs have an axis without places: it ends, and nothing around it is written. */
static void test_copy_along_no_places(void) {
    const int32_t extent[] = {0}, step[] = {1};
    const pillion_strided_copy_params p = {.rows = 3, .count = 1, .element_bytes = 1, .x_step = 1, .y_step = 1,
                                           .axes = 1, .extent = extent, .x_row_step = step, .y_row_step = step};
    int8_t *const x = random_bytes(4), *const y = block(4);
    pillion_strided_copy(&p, x, y, NULL);
    check(y[0] == x[0], "copy_along_no_places", 0);
    free(x);
    free(y);
}

int main(void) {
    test_requantize();
    test_nearest();
    test_conv2d();
    test_transposed_copy();
    test_copy_along_no_places();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}

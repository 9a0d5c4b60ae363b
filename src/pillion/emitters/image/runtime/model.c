/* SPDX-License-Identifier: Apache-2.0
 * Reads net.plm, opens it, and hands it to the harness as a model. */
#include "model.h"

#include "../harness/semihosting.h"
#include "../set/pillion_kernels.h"

#undef main

#define MOST_BUFFERS 32
#define MOST_OPS 4096

static __attribute__((aligned(16), section(".pillion_arena"))) uint8_t block[IMAGE_BLOCK_BYTES];
static __attribute__((aligned(16), section(".pillion_arena"))) uint8_t bound[IMAGE_BOUND_BYTES];
static int is_bound;
static void *state_of_rows;
static pillion_image image;
static pillion_buffer inputs[MOST_BUFFERS], outputs[MOST_BUFFERS];
static const char *op_names[MOST_OPS];
pillion_model pillion_model_image;

/* After the first run, which resolves the calls for later runs. */
static void bind(void *arena, void *state) {
    if (!is_bound) {
        pillion_image_bind(&image, bound, sizeof bound, arena, state);
        is_bound = 1;
    }
}

static void step(void *arena, void *state, void (*after_op)(uint32_t op)) {
    pillion_image_run(&image, arena, state, after_op);
    bind(arena, state);
}

static void run(void *arena, void (*after_op)(uint32_t op)) {
    step(arena, NULL, after_op);
}

static void reset(void *state) {
    pillion_image_reset(&image, state);
}

static void begin_step(void *arena, void *state, void (*after_op)(uint32_t op)) {
    state_of_rows = state;
    pillion_image_begin(&image, arena, state, after_op);
}

static void begin(void *arena, void (*after_op)(uint32_t op)) {
    begin_step(arena, NULL, after_op);
}

static uint32_t hand_over(void *arena, const void *rows, uint32_t count) {
    (void)arena;
    return pillion_image_rows(&image, rows, count);
}

static uint32_t end(void *arena) {
    const uint32_t missing = pillion_image_end(&image);
    bind(arena, state_of_rows);
    return missing;
}

static pillion_row_functions row_functions = {0, 0, begin, hand_over, end, begin_step};

static void describe(pillion_buffer *to, const pillion_image_buffer *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i].name = (const char *)block + from[i].name;
        to[i].offset = from[i].offset;
        to[i].bytes = from[i].bytes;
    }
}

/* A part that cannot run here; NULL if all parts can. */
static const char *open_image(void) {
    static const char *const statuses[] = {
        "",          "misaligned", "no image", "another format", "truncated",          "damaged", "another core", "another version of the kernels",
        "no kernel", "layout",     "schedule", "bounds",         "another kind of run", "npu",
    };
    const int32_t file = semihost_open("net.plm", SEMIHOST_READ);
    const int32_t length = file < 0 ? -1 : semihost_length(file);
    if (length < 0 || (uint32_t)length > sizeof block || semihost_read(file, block, (uint32_t)length) != 0) {
        return "net.plm cannot be read, or is too large for this board";
    }
    const pillion_image_status status = pillion_image_open(block, (uint32_t)length, &pillion_kernels, &image);
    if (status != PILLION_IMAGE_OK) {
        return statuses[status];
    }
    if (image.segments > 0) {
        return "its NPU segments run on the chip alone";
    }
    const int is_small = image.arena_bytes <= IMAGE_ARENA_BYTES && image.state_bytes <= IMAGE_STATE_BYTES;
    const int is_short = image.input_count <= MOST_BUFFERS && image.output_count <= MOST_BUFFERS && image.row_bytes <= IMAGE_ROW_BYTES;
    return is_small && is_short ? NULL : "it is too large for this board";
}

int main(int argc, char **argv) {
    const char *const wrong = open_image();
    if (wrong != NULL) {
        semihost_print("{\"error\": \"the image was refused\", \"reason\": \"");
        semihost_print(wrong);
        semihost_print("\"}\n");
        return 1;
    }
    for (uint32_t i = 0; i < MOST_OPS; i++) {
        op_names[i] = "op";
    }
    describe(inputs, image.inputs, image.input_count);
    describe(outputs, image.outputs, image.output_count);
    row_functions.rows = image.rows;
    row_functions.row_bytes = image.row_bytes;
    if (image.state_bytes > 0) {
        row_functions.begin = NULL;
    } else {
        row_functions.begin_step = NULL;
    }
    const int has_state = image.state_bytes > 0, by_rows = image.rows > 0;
    pillion_model_image.name = image.name;
    pillion_model_image.arena_bytes = image.arena_bytes;
    pillion_model_image.input_count = image.input_count;
    pillion_model_image.output_count = image.output_count;
    pillion_model_image.op_count = MOST_OPS;
    pillion_model_image.inputs = inputs;
    pillion_model_image.outputs = outputs;
    pillion_model_image.op_names = op_names;
    pillion_model_image.run = has_state || by_rows ? NULL : run;
    pillion_model_image.state_bytes = image.state_bytes;
    pillion_model_image.reset = has_state ? reset : NULL;
    pillion_model_image.step = has_state && !by_rows ? step : NULL;
    pillion_model_image.row_functions = by_rows ? &row_functions : NULL;
    return pillion_harness_main(argc, argv);
}

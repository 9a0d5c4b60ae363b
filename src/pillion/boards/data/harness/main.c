/* SPDX-License-Identifier: Apache-2.0
 * Runs the model on the samples of input.bin and writes output.bin. A sample is all inputs one after another,
 * in the order of the model; so are its outputs. Samples are the steps of one stream to a model with a state, which is reset
 * before the first. Facts go to standard output, one JSON object to a line.
 *
 *     main [profile]        profile: also the ticks that each op of the first sample takes */
#include "board.h"
#include "harness.h"
#include "semihosting.h"

#include <stdbool.h>
#include <string.h>

/* In sections of their own, so that the linked file shows their sizes. */
PILLION_DEFINE_ARENA

#if PILLION_STATE_BYTES > 0
__attribute__((aligned(16), section(".pillion_state"))) uint8_t pillion_state[PILLION_STATE_BYTES];
#define STATE pillion_state
#else
#define STATE NULL
#endif

static const pillion_model *const model = &PILLION_MODEL;

/* The bytes of the arena before the first run, and of the state before its reset: code that relies on zeros fails. */
#define JUNK 0xa5

/* A model that takes rows gets so many at once; here they lie meanwhile. */
#define MOST_ROWS 3u
static uint8_t rows_given[MOST_ROWS * PILLION_ROW_BYTES];

static int32_t input, output;
static const char *problem;

/* ---- facts, as JSON ---- */

/* Byte by byte, and by a multiplication: the compiler's own division, and shifts of 64 bits by any number, would be linked
 * among the code of the model. */
static uint32_t divide_word_by_ten(uint32_t *word, uint32_t rest) {
    uint32_t quotient = 0;
    for (int32_t shift = 24; shift >= 0; shift -= 8) {
        const uint32_t part = rest << 8 | (*word >> shift & 0xffu);
        const uint32_t tenth = part * 6554u >> 16; /* exact below 16384 */
        quotient |= tenth << shift;
        rest = part - 10 * tenth;
    }
    *word = quotient;
    return rest;
}

static uint32_t divide_by_ten(uint64_t *value) {
    uint32_t high = (uint32_t)(*value >> 32), low = (uint32_t)*value;
    const uint32_t rest = divide_word_by_ten(&low, divide_word_by_ten(&high, 0));
    *value = (uint64_t)high << 32 | low;
    return rest;
}

static void print_number(uint64_t value) {
    char text[21];
    char *p = text + sizeof text - 1;
    *p = '\0';
    do {
        *--p = (char)('0' + divide_by_ten(&value));
    } while (value != 0);
    semihost_print(p);
}

static void print_string(const char *text) {
    char one[] = {'\0', '\0'};
    semihost_print("\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            semihost_print("\\");
        }
        one[0] = *text < ' ' ? ' ' : *text;
        semihost_print(one);
    }
    semihost_print("\"");
}

static void print_field(const char *before, uint64_t value) {
    semihost_print(before);
    print_number(value);
}

static int fail(const char *what) {
    semihost_print("{\"error\": ");
    print_string(what);
    semihost_print("}\n");
    return 1;
}

/* ---- samples ---- */

static uint32_t total_bytes(const pillion_buffer *buffers, uint32_t count) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += buffers[i].bytes;
    }
    return bytes;
}

static void read_input(void *to, uint32_t bytes) {
    if (semihost_read(input, to, bytes) != 0) {
        problem = "input.bin cannot be read";
    }
}

static void go_to(uint32_t position) {
    if (semihost_seek(input, position) != 0) {
        problem = "input.bin cannot be read";
    }
}

/* An input that is passed row by row is read later: the file stays where its rows begin. */
static void read_inputs(uint32_t sample) {
    uint32_t at = sample * total_bytes(model->inputs, model->input_count), rows_at = at;
    for (uint32_t i = 0; i < model->input_count; i++) {
        const pillion_buffer *const one = &model->inputs[i];
        if (one->offset == PILLION_NOWHERE) {
            rows_at = at;
        } else {
            go_to(at);
            read_input(pillion_address(model, PILLION_ARENA, one), one->bytes);
        }
        at += one->bytes;
    }
    if (model->row_functions != NULL) {
        go_to(rows_at);
    }
}

static void write_outputs(void) {
    for (uint32_t i = 0; i < model->output_count; i++) {
        const pillion_buffer *const from = &model->outputs[i];
        if (semihost_write(output, pillion_address(model, PILLION_ARENA, from), from->bytes) != 0) {
            problem = "output.bin cannot be written";
        }
    }
}

/* ---- profile ---- */

static struct {
    uint64_t last, latest, total;
    bool silent;
} profile;

/* Time spent in here, printing above all, falls between two looks at the clock and is nobody's. */
static void after_op(uint32_t op) {
    const uint64_t now = pillion_clock_now();
    const uint64_t ticks = now - profile.last;
    profile.latest = ticks;
    profile.total += ticks;
    if (!profile.silent) {
        print_field("{\"op\": ", op);
        semihost_print(", \"name\": ");
        print_string(model->op_names[op]);
        print_field(", \"ticks\": ", ticks);
        print_field(", \"wraps\": ", (now >> PILLION_CLOCK_BITS) - (profile.last >> PILLION_CLOCK_BITS));
        semihost_print("}\n");
    }
    profile.last = pillion_clock_now();
}

static void begin_profile(bool silent) {
    profile.silent = silent;
    profile.total = 0;
    profile.last = pillion_clock_now();
}

/* The time between these two does not count: rows are read from a file. */
static uint64_t held;

static void pause_profile(void) {
    held = pillion_clock_now() - profile.last;
}

static void resume_profile(void) {
    profile.last = pillion_clock_now() - held;
}

/* The ticks of an empty op: leaving after_op and entering it again. */
static uint64_t ticks_of_no_op(void) {
    void (*volatile call)(uint32_t op) = after_op;
    begin_profile(true);
    call(0);
    call(1);
    return profile.latest;
}

/* ---- runs ---- */

static void hand_over_rows(void (*after)(uint32_t op)) {
    const pillion_row_functions *const functions = model->row_functions;
    pillion_begin_rows(model, PILLION_ARENA, STATE, after);
    for (uint32_t missing = functions->rows; missing > 0 && problem == NULL;) {
        const uint32_t count = missing < MOST_ROWS ? missing : MOST_ROWS;
        if (after != NULL) {
            pause_profile();
        }
        read_input(rows_given, count * functions->row_bytes);
        if (after != NULL) {
            resume_profile();
        }
        missing = functions->hand_over(PILLION_ARENA, rows_given, count);
    }
    if (functions->end(PILLION_ARENA) != 0 && problem == NULL) {
        problem = "the model wants more rows than it has";
    }
}

static void run_once(void) {
    if (model->row_functions != NULL) {
        hand_over_rows(NULL);
    } else {
        pillion_run(model, PILLION_ARENA, STATE, NULL);
    }
}

static void run_profiled(void) {
    pillion_clock_start();
    print_field("{\"overhead_ticks\": ", ticks_of_no_op());
    print_field(", \"wrap_ticks\": ", pillion_clock_wrap_ticks());
    semihost_print(", \"tick_ns\": ");
    semihost_print(pillion_tick_ns);
    semihost_print("}\n");
    if (model->row_functions != NULL) {
        begin_profile(false);
        hand_over_rows(after_op);
    } else { /* nothing between the look at the clock and the model */
        begin_profile(false);
        pillion_run(model, PILLION_ARENA, STATE, after_op);
    }
    print_field("{\"total_ticks\": ", profile.total);
    semihost_print("}\n");
}

/* The stack is measured in a run without the clock: its interrupt would leave a frame there. */
static void first_sample(bool profiled) {
    const uint32_t stack_bytes = pillion_run_on_painted_stack(run_once);
    if (stack_bytes == PILLION_STACK_OVERFLOWN) {
        problem = "the stack overflowed: make it larger in sections.ld";
        return;
    }
    if (stack_bytes != PILLION_STACK_UNKNOWN) {
        print_field("{\"stack_bytes\": ", stack_bytes);
        semihost_print("}\n");
    }
    write_outputs();
    if (profiled && problem == NULL) {
        read_inputs(0);
        pillion_reset_state(model, STATE);
        run_profiled();
    }
}

static void run_samples(uint32_t samples, bool profiled) {
    for (uint32_t sample = 0; sample < samples && problem == NULL; sample++) {
        read_inputs(sample);
        if (sample == 0) {
            first_sample(profiled);
        } else {
            run_once();
            write_outputs();
        }
    }
}

static int wrong_size(uint32_t sample_bytes, uint32_t length) {
    semihost_print("{\"error\": \"input.bin is not a whole number of samples\"");
    print_field(", \"sample_bytes\": ", sample_bytes);
    print_field(", \"input_bytes\": ", length);
    semihost_print("}\n");
    return 1;
}

static bool asked_for_profile(int argc, char **argv) {
    static const char word[] = "profile";
    for (int i = 0; i < argc; i++) {
        uint32_t same = 0;
        while (same < sizeof word && argv[i][same] == word[same]) {
            same++;
        }
        if (same == sizeof word) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv) {
    input = semihost_open("input.bin", SEMIHOST_READ);
    output = semihost_open("output.bin", SEMIHOST_WRITE);
    const int32_t length = input < 0 ? -1 : semihost_length(input);
    if (length < 0 || output < 0) {
        return fail(length < 0 ? "input.bin cannot be read" : "output.bin cannot be written");
    }
    const uint32_t sample_bytes = total_bytes(model->inputs, model->input_count);
    if (length == 0 || sample_bytes == 0 || (uint32_t)length % sample_bytes != 0) {
        return wrong_size(sample_bytes, (uint32_t)length);
    }
    for (uint32_t i = 0; i == 0 || i < model->memory_count; i++) {
        memset(pillion_memory_at(model, PILLION_ARENA, i), JUNK, model->memory_count == 0 ? model->arena_bytes : model->memories[i].bytes);
    }
#if PILLION_STATE_BYTES > 0
    memset(pillion_state, JUNK, sizeof pillion_state);
#endif
    pillion_reset_state(model, STATE);
    run_samples((uint32_t)length / sample_bytes, asked_for_profile(argc, argv));
    if (problem != NULL) {
        return fail(problem);
    }
    return semihost_close(output) == 0 ? 0 : fail("output.bin cannot be written");
}

/* SPDX-License-Identifier: Apache-2.0
 * Runs a model on this computer for boards/host.py, which starts it as a child process: what the model does cannot
 * harm the parent, and can be stopped. Linked with the model, whose descriptor PILLION_MODEL names.
 *
 * Arguments: a file descriptor whose first word says where the model is, and the parent's process number.
 * The parent's bytes come on standard input, ours go to standard output; numbers as they lie in memory:
 *   at the start     bytes of what follows; arena bytes; state bytes; counts of inputs, outputs, ops, memories; name;
 *                    offset, bytes, memory and name of each input and output; bytes of each memory; name of each op
 *   'r', all inputs  (handed over in portions of changing size, if the model takes rows)
 *                    how many bytes changed before the arena and how near, the same after it; all outputs
 *   's'              nothing: the state is reset
 *   't', a count     so many times, in nanoseconds, of runs on whatever the arena holds
 * A text is its length and its bytes. */
#define _XOPEN_SOURCE 700

#include "pillion/model.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ALIGNMENT 16u
#define GUARD_BYTES 4096u
/* Lies around the arena and the state, in the arena before a run, and in the state before it is reset: no kernel may write there or
 * count on zeros. */
#define JUNK 0xA5
/* In the word that says where the model is: outside a run. */
#define NOT_RUNNING UINT32_MAX

extern const pillion_model PILLION_MODEL;

static const pillion_model *const model = &PILLION_MODEL;
static int from_parent, to_parent;
static pid_t parent;
static volatile uint32_t *ops_done;
static uint8_t *state;
/* What the functions of the model receive: the arena, or the addresses of several memories. */
static void *arena;
/* The memories of the model, or its arena as the only one. */
#define MOST_MEMORIES 8u
static void *memories[MOST_MEMORIES];
static uint32_t memory_count;
/* The input that a model takes row by row: it is not in the arena. */
static uint8_t *frame;

static void fail(const char *what) {
    perror(what);
    _exit(3);
}

/* Whether all could be read: the parent ends the run by closing its side. */
static int take(void *to, size_t bytes) {
    uint8_t *at = to;
    while (bytes > 0) {
        const ssize_t got = read(from_parent, at, bytes);
        if (got <= 0) {
            return 0;
        }
        at += got;
        bytes -= (size_t)got;
    }
    return 1;
}

static void give(const void *from, size_t bytes) {
    const uint8_t *at = from;
    while (bytes > 0) {
        const ssize_t put = write(to_parent, at, bytes);
        if (put <= 0) {
            _exit(0);
        }
        at += put;
        bytes -= (size_t)put;
    }
}

static void give_number(uint32_t number) {
    give(&number, sizeof number);
}

static void give_text(const char *text) {
    const size_t length = strlen(text);
    give_number((uint32_t)length);
    give(text, length);
}

static size_t text_bytes(const char *text) {
    return sizeof(uint32_t) + strlen(text);
}

static size_t buffers_bytes(const pillion_buffer *buffers, uint32_t count) {
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += 3 * sizeof(uint32_t) + text_bytes(buffers[i].name);
    }
    return total;
}

static void give_buffers(const pillion_buffer *buffers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        give_number(buffers[i].offset);
        give_number(buffers[i].bytes);
        give_number(buffers[i].memory);
        give_text(buffers[i].name);
    }
}

static void describe(void) {
    size_t bytes = (6 + model->memory_count) * sizeof(uint32_t) + text_bytes(model->name);
    bytes += buffers_bytes(model->inputs, model->input_count) + buffers_bytes(model->outputs, model->output_count);
    for (uint32_t i = 0; i < model->op_count; i++) {
        bytes += text_bytes(model->op_names[i]);
    }
    give_number((uint32_t)bytes);
    give_number(model->arena_bytes);
    give_number(model->state_bytes);
    give_number(model->input_count);
    give_number(model->output_count);
    give_number(model->op_count);
    give_number(model->memory_count);
    give_text(model->name);
    give_buffers(model->inputs, model->input_count);
    give_buffers(model->outputs, model->output_count);
    for (uint32_t i = 0; i < model->memory_count; i++) {
        give_number(model->memories[i].bytes);
    }
    for (uint32_t i = 0; i < model->op_count; i++) {
        give_text(model->op_names[i]);
    }
}

static size_t memory_bytes(uint32_t number) {
    return model->memory_count == 0 ? model->arena_bytes : model->memories[number].bytes;
}

static void fill(void) {
    for (uint32_t i = 0; i < memory_count; i++) {
        memset((uint8_t *)memories[i] - GUARD_BYTES, JUNK, GUARD_BYTES + memory_bytes(i) + GUARD_BYTES);
    }
}

static uint8_t *aligned(uint8_t *at) {
    return at + -(uintptr_t)at % ALIGNMENT;
}

/* Bytes between two guards. */
static uint8_t *guarded(size_t size) {
    const size_t bytes = 2 * (size_t)GUARD_BYTES + size + ALIGNMENT;
    uint8_t *const memory = malloc(bytes);
    if (memory == NULL) {
        fail("the model's arena and state");
    }
    memset(memory, JUNK, bytes);
    return aligned(memory + GUARD_BYTES);
}

static void make_memory(void) {
    memory_count = model->memory_count == 0 ? 1 : model->memory_count;
    if (memory_count > MOST_MEMORIES) {
        fail("the model's memories");
    }
    for (uint32_t i = 0; i < memory_count; i++) {
        memories[i] = guarded(memory_bytes(i));
    }
    arena = model->memory_count == 0 ? memories[0] : (void *)memories;
    state = guarded(model->state_bytes);
    pillion_reset_state(model, state);
    if (model->row_functions != NULL) {
        frame = calloc(model->row_functions->rows, model->row_functions->row_bytes);
        if (frame == NULL) {
            fail("the model's input");
        }
    }
}

typedef struct {
    uint32_t changed, nearest;
} changes;

/* Of a guard: how many of its bytes changed, and the distance of the nearest one from what it guards. */
static void look_at(const uint8_t *guard, int is_before, changes *found) {
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        const uint32_t distance = i + 1;
        if (guard[is_before ? GUARD_BYTES - distance : i] != JUNK) {
            found->changed++;
            found->nearest = found->nearest == 0 ? distance : found->nearest;
        }
    }
}

static void give_changes(void) {
    changes before = {0, 0}, after = {0, 0};
    for (uint32_t i = 0; i < memory_count; i++) {
        look_at((uint8_t *)memories[i] - GUARD_BYTES, 1, &before);
        look_at((uint8_t *)memories[i] + memory_bytes(i), 0, &after);
    }
    if (model->state_bytes > 0) {
        look_at(state - GUARD_BYTES, 1, &before);
        look_at(state + model->state_bytes, 0, &after);
    }
    give_number(before.changed);
    give_number(before.nearest);
    give_number(after.changed);
    give_number(after.nearest);
}

static void after_op(uint32_t op) {
    *ops_done = op + 1;
}

/* One row, two, three, four, one again; each portion lies where nothing is behind it, and is not what it was afterwards. */
static void hand_over(void (*after)(uint32_t op)) {
    const pillion_row_functions *const rows = model->row_functions;
    pillion_begin_rows(model, arena, state, after);
    for (uint32_t first = 0, count = 1; first < rows->rows; first += count, count = count % 4 + 1) {
        if (count > rows->rows - first) {
            count = rows->rows - first;
        }
        const size_t bytes = (size_t)count * rows->row_bytes;
        uint8_t *const portion = malloc(bytes);
        if (portion == NULL) {
            fail("rows of the input");
        }
        memcpy(portion, frame + (size_t)first * rows->row_bytes, bytes);
        const uint32_t missing = rows->hand_over(arena, portion, count);
        memset(portion, JUNK, bytes);
        free(portion);
        if (missing != rows->rows - first - count) {
            fail("the model counts its rows in another way");
        }
    }
    if (rows->end(arena) != 0) {
        fail("the model wants more rows than it has");
    }
}

static void run(void (*after)(uint32_t op)) {
    if (model->row_functions != NULL) {
        hand_over(after);
    } else {
        pillion_run(model, arena, state, after);
    }
}

static uint8_t *place_of(const pillion_buffer *input) {
    return input->offset == PILLION_NOWHERE ? frame : pillion_address(model, arena, input);
}

static int run_sample(void) {
    fill();
    for (uint32_t i = 0; i < model->input_count; i++) {
        if (!take(place_of(&model->inputs[i]), model->inputs[i].bytes)) {
            return 0;
        }
    }
    *ops_done = 0;
    run(after_op);
    *ops_done = NOT_RUNNING;
    give_changes();
    for (uint32_t i = 0; i < model->output_count; i++) {
        give(pillion_address(model, arena, &model->outputs[i]), model->outputs[i].bytes);
    }
    return 1;
}

static int time_runs(void) {
    uint32_t count;
    if (!take(&count, sizeof count)) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct timespec from, to;
        (void)clock_gettime(CLOCK_MONOTONIC, &from);
        run(NULL);
        (void)clock_gettime(CLOCK_MONOTONIC, &to);
        const int64_t nanoseconds = (int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);
        give(&nanoseconds, sizeof nanoseconds);
    }
    return 1;
}

static int reset(void) {
    pillion_reset_state(model, state);
    return 1;
}

static int answer(char what) {
    switch (what) {
    case 'r':
        return run_sample();
    case 's':
        return reset();
    default:
        return time_runs();
    }
}

static void end_without_parent(int signal) {
    (void)signal;
    if (getppid() != parent) {
        _exit(1);
    }
}

/* A parent that is killed cannot stop us; so a model that does not end is stopped by a look at every second. The C of a model
 * may run before main, so the watch begins as early as a program of GNU C can: 101 is the first number that is not reserved. */
__attribute__((constructor(101))) static void watch_parent(void) {
    parent = getppid();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_without_parent;
    action.sa_flags = SA_RESTART;
    const struct itimerval second = {{1, 0}, {1, 0}};
    if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &second, NULL) != 0) {
        fail("watching the parent");
    }
}

/* What the model itself prints must not get among the answers. */
static void keep_pipes_apart(void) {
    from_parent = fcntl(STDIN_FILENO, F_DUPFD, 3);
    to_parent = fcntl(STDOUT_FILENO, F_DUPFD, 3);
    const int nothing = open("/dev/null", O_RDWR);
    if (from_parent < 0 || to_parent < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) {
        fail("the pipes of the parent");
    }
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        (void)dup2(nothing, STDOUT_FILENO);
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "this program is started by Pillion\n");
        return 3;
    }
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    keep_pipes_apart();
    /* A parent that was gone before the watch began is another one than it says. */
    parent = (pid_t)atol(arguments[2]);
    void *const page = mmap(NULL, sizeof *ops_done, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[1]), 0);
    if (page == MAP_FAILED) {
        fail("the word that says where the model is");
    }
    ops_done = page;
    describe();
    make_memory();
    char what;
    while (take(&what, 1) && answer(what)) {
    }
    return 0;
}

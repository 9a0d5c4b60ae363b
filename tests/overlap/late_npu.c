/* SPDX-License-Identifier: Apache-2.0
 * Runs models in steps against an NPU that behaves as badly as one may: it reads its inputs at a random moment between start and end,
 * scribbles over its outputs and its workspace from then on, answers late, and its driver discards the cache lines of the workspace.
 *
 * Arguments: for each model a file with samples and wanted outputs; then the number of schedules and a seed. Several models share the
 * NPU and take turns; with a callback between two ops, one preempts another. Prints the number of wrong runs. */
#include "late_npu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 32u
#define MOST_STEPS 1000000u

typedef struct {
    uint8_t *memory, *arena, *state, *samples;
    /* The addresses of several memories, all in the arena; what the model receives: them, or the arena. */
    void *pieces[4], *given;
    uint32_t sample_count, at, wrong;
    pillion_task task;
} run;

static uint64_t dice = 1;
static run runs[8];
static uint32_t model_count, nested, preempted;

static uint32_t roll(uint32_t sides) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % sides;
}

static void scribble(void *to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)to)[i] = (uint8_t)roll(256);
    }
}

/* ---- the NPU ---- */

static struct {
    const late_segment *segment;
    pillion_task *owner;
    const void *inputs[MOST_PORTS];
    void *outputs[MOST_PORTS];
    uint8_t *workspace;
    uint32_t clock, reads_at, ends_at;
    int has_read;
    uint8_t *read[MOST_PORTS], before[LINE], behind[LINE];
} npu;

static uint32_t bytes_before(void) {
    return (uint32_t)((uintptr_t)npu.workspace % LINE);
}

static uint32_t bytes_behind(void) {
    return (uint32_t)(-(uintptr_t)(npu.workspace + npu.segment->workspace_bytes) % LINE);
}

static void read_inputs(void) {
    for (uint32_t i = 0; i < npu.segment->input_count; i++) {
        npu.read[i] = malloc(npu.segment->input_bytes[i]);
        memcpy(npu.read[i], npu.inputs[i], npu.segment->input_bytes[i]);
    }
    npu.has_read = 1;
}

/* Time goes on: once the inputs are read, everything that belongs to the NPU may change at any time. */
static void tick(void) {
    if (npu.segment == NULL) {
        return;
    }
    npu.clock++;
    if (!npu.has_read && npu.clock >= npu.reads_at) {
        read_inputs();
    }
    if (npu.has_read) {
        for (uint32_t i = 0; i < npu.segment->output_count; i++) {
            scribble(npu.outputs[i], npu.segment->output_bytes[i]);
        }
        scribble(npu.workspace, npu.segment->workspace_bytes);
    }
}

int late_start(const late_segment *segment, pillion_task *task, const void *const *inputs, void *const *outputs, void *workspace) {
    if (!pillion_npu_take(task)) {
        return 0;
    }
    if (npu.segment != NULL) {
        printf("two segments at once\n");
        exit(2);
    }
    npu.segment = segment;
    npu.owner = task;
    memcpy(npu.inputs, inputs, segment->input_count * sizeof *inputs);
    memcpy(npu.outputs, outputs, segment->output_count * sizeof *outputs);
    npu.workspace = workspace;
    npu.clock = 0;
    npu.reads_at = roll(6);
    npu.ends_at = npu.reads_at + roll(8);
    npu.has_read = 0;
    if (workspace != NULL) {
        memcpy(npu.before, npu.workspace - bytes_before(), bytes_before());
        memcpy(npu.behind, npu.workspace + segment->workspace_bytes, bytes_behind());
    }
    for (uint32_t i = roll(4); i > 0; i--) {
        tick(); /* it may be faster than the core's next op */
    }
    return 1;
}

int late_end(const late_segment *segment, pillion_task *task) {
    tick();
    if (npu.segment != segment || npu.owner != task) {
        printf("the end of another segment\n");
        exit(2);
    }
    if (npu.clock < npu.ends_at) {
        return 0;
    }
    if (!npu.has_read) {
        read_inputs();
    }
    uint8_t *made[MOST_PORTS];
    for (uint32_t i = 0; i < segment->output_count; i++) {
        made[i] = malloc(segment->output_bytes[i]);
    }
    segment->run((const void *const *)npu.read, (void *const *)made);
    tick();
    for (uint32_t i = 0; i < segment->output_count; i++) {
        memcpy(npu.outputs[i], made[i], segment->output_bytes[i]);
        free(made[i]);
    }
    for (uint32_t i = 0; i < segment->input_count; i++) {
        free(npu.read[i]);
    }
    if (npu.workspace != NULL) {
        memcpy(npu.workspace - bytes_before(), npu.before, bytes_before());
        memcpy(npu.workspace + segment->workspace_bytes, npu.behind, bytes_behind());
    }
    npu.segment = NULL;
    pillion_npu_pass(task);
    return 1;
}

/* ---- the tasks ---- */

static size_t total(const pillion_buffer *buffers, uint32_t count) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += buffers[i].bytes;
    }
    return bytes;
}

static size_t sample_bytes(const pillion_model *model) {
    return total(model->inputs, model->input_count) + total(model->outputs, model->output_count);
}

static void open_run(uint32_t number, const char *path) {
    const pillion_model *const model = late_models[number].model;
    run *const r = &runs[number];
    size_t arena_bytes = model->memory_count == 0 ? model->arena_bytes : 0;
    for (uint32_t i = 0; i < model->memory_count; i++) {
        arena_bytes += (model->memories[i].bytes + LINE - 1) / LINE * LINE;
    }
    const size_t bytes = arena_bytes + 4 * (size_t)LINE;
    r->memory = malloc(bytes + model->state_bytes);
    r->arena = r->memory + -(uintptr_t)r->memory % LINE;
    r->state = r->arena + arena_bytes + (-(uintptr_t)arena_bytes % LINE);
    uint8_t *piece = r->arena;
    for (uint32_t i = 0; i < model->memory_count; i++) {
        r->pieces[i] = piece;
        piece += (model->memories[i].bytes + LINE - 1) / LINE * LINE;
    }
    r->given = model->memory_count == 0 ? (void *)r->arena : (void *)r->pieces;
    FILE *const file = fopen(path, "rb");
    if (file == NULL || fread(&r->sample_count, sizeof r->sample_count, 1, file) != 1) {
        exit(3);
    }
    r->samples = malloc(r->sample_count * sample_bytes(model));
    if (fread(r->samples, sample_bytes(model), r->sample_count, file) != r->sample_count) {
        exit(3);
    }
    fclose(file);
    r->task.at = PILLION_TASK_DONE;
}

static void after_op(uint32_t op);

static void begin(uint32_t number) {
    const pillion_model *const model = late_models[number].model;
    run *const r = &runs[number];
    if (r->at == 0 && model->reset != NULL) {
        model->reset(r->state);
    }
    scribble(r->arena, model->arena_bytes);
    const uint8_t *sample = r->samples + r->at * sample_bytes(model);
    for (uint32_t i = 0; i < model->input_count; i++) {
        memcpy(pillion_address(model, r->given, &model->inputs[i]), sample, model->inputs[i].bytes);
        sample += model->inputs[i].bytes;
    }
    late_models[number].start(&r->task, r->given, r->state, after_op);
}

static void compare(uint32_t number) {
    const pillion_model *const model = late_models[number].model;
    run *const r = &runs[number];
    const uint8_t *wanted = r->samples + r->at * sample_bytes(model) + total(model->inputs, model->input_count);
    int wrong = 0;
    for (uint32_t i = 0; i < model->output_count; i++) {
        wrong |= memcmp(pillion_address(model, r->given, &model->outputs[i]), wanted, model->outputs[i].bytes) != 0;
        wanted += model->outputs[i].bytes;
    }
    r->wrong += (uint32_t)wrong;
    r->at = (r->at + 1) % r->sample_count;
}

static void step(uint32_t number) {
    run *const r = &runs[number];
    if (r->task.at != PILLION_TASK_DONE && late_models[number].step(&r->task)) {
        compare(number);
    }
}

/* Between two ops of a model: an interrupt comes, and a thread of higher priority may run. */
static void after_op(uint32_t op) {
    (void)op;
    tick();
    if (nested == 0 && model_count > 1 && roll(3) == 0) {
        nested = 1;
        preempted++;
        for (uint32_t i = 0; i <= roll(4); i++) {
            step(model_count - 1);
        }
        nested = 0;
    }
}

static void run_schedule(void) {
    for (uint32_t i = 0; i < model_count; i++) {
        begin(i);
    }
    for (uint32_t steps = 0;; steps++) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < model_count; i++) {
            left += runs[i].task.at != PILLION_TASK_DONE;
        }
        if (left == 0) {
            return;
        }
        if (steps > MOST_STEPS) {
            printf("stuck\n");
            exit(2);
        }
        for (uint32_t i = roll(4); i > 0; i--) {
            tick();
        }
        /* The last model has the highest priority: no other one runs during its steps. */
        const uint32_t number = roll(model_count);
        nested = number == model_count - 1;
        step(number);
        nested = 0;
    }
}

int main(int argc, char **argv) {
    model_count = late_model_count;
    if (argc != (int)model_count + 3) {
        return 3;
    }
    for (uint32_t i = 0; i < model_count; i++) {
        open_run(i, argv[1 + i]);
    }
    const uint32_t schedules = (uint32_t)atoi(argv[1 + model_count]);
    dice = (uint64_t)atoi(argv[2 + model_count]) * 2 + 1;
    uint32_t wrong = 0;
    for (uint32_t s = 0; s < schedules; s++) {
        run_schedule();
    }
    for (uint32_t i = 0; i < model_count; i++) {
        wrong += runs[i].wrong;
    }
    printf("%u of %u wrong, preempted %u times\n", wrong, schedules * model_count, preempted);
    return wrong != 0;
}

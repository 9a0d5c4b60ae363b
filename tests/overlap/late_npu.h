/* SPDX-License-Identifier: Apache-2.0
 * The interface between late_npu.c and what a test generates for its models. */
#ifndef LATE_NPU_H
#define LATE_NPU_H

#include "pillion/model.h"
#include "pillion/task.h"

#define MOST_PORTS 16u

typedef struct {
    void (*run)(const void *const *inputs, void *const *outputs);
    uint32_t input_count, output_count, workspace_bytes;
    uint32_t input_bytes[MOST_PORTS], output_bytes[MOST_PORTS];
} late_segment;

typedef struct {
    const pillion_model *model;
    void (*start)(pillion_task *task, void *arena, void *state, void (*after_op)(uint32_t op));
    int (*step)(pillion_task *task);
} late_model;

extern const late_model late_models[];
extern const uint32_t late_model_count;

int late_start(const late_segment *segment, pillion_task *task, const void *const *inputs, void *const *outputs, void *workspace);
int late_end(const late_segment *segment, pillion_task *task);

#endif

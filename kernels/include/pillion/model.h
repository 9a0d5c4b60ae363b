/* SPDX-License-Identifier: Apache-2.0
 * What every compiled model offers its caller, whatever the network: `model.h` of a firmware declares one of
 * these. */
#ifndef PILLION_MODEL_DESCRIPTOR_H
#define PILLION_MODEL_DESCRIPTOR_H

#include <stdint.h>

/* An input or an output: a place in the arena. */
typedef struct {
    const char *name;
    uint32_t offset;
    uint32_t bytes;
} pillion_buffer;

typedef struct {
    const char *name;
    uint32_t arena_bytes; /* the arena must be aligned to 16 bytes */
    uint32_t input_count, output_count, op_count;
    const pillion_buffer *inputs, *outputs;
    const char *const *op_names;
    /* Reads the inputs from the arena and leaves the outputs there. The arena is working memory: the inputs
     * may be overwritten, so copy them in before every run. `after_op` may be NULL; otherwise it is called
     * after each op. */
    void (*run)(void *arena, void (*after_op)(uint32_t op));
} pillion_model;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The interface of every compiled model: `model.h` of a firmware declares one `pillion_model`. */
#ifndef PILLION_MODEL_DESCRIPTOR_H
#define PILLION_MODEL_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The offset of the input that is handed over row by row. */
#define PILLION_NOWHERE UINT32_MAX

/* An input or an output: a place in the arena, or in one of several memories. */
typedef struct {
    const char *name;
    uint32_t offset;
    uint32_t bytes;
    uint32_t memory;
} pillion_buffer;

/* A memory of the chip that holds a part of the arena. */
typedef struct {
    const char *name;
    uint32_t bytes;
} pillion_memory;

/* The functions that replace `run` or `step` in a model that receives an input row by row: see its model.h. All other inputs are written to
 * the arena first. A model with a state has `begin_step` instead of `begin`. */
typedef struct {
    uint32_t rows, row_bytes;
    void (*begin)(void *arena, void (*after_op)(uint32_t op));
    uint32_t (*hand_over)(void *arena, const void *rows, uint32_t count);
    uint32_t (*end)(void *arena);
    void (*begin_step)(void *arena, void *state, void (*after_op)(uint32_t op));
} pillion_row_functions;

typedef struct {
    const char *name;
    uint32_t arena_bytes; /* the arena must be aligned to 16 bytes */
    uint32_t input_count, output_count, op_count;
    const pillion_buffer *inputs, *outputs;
    const char *const *op_names;
    /* Reads the inputs from the arena and leaves the outputs there. The arena is working memory: the inputs
     * may be overwritten, so copy them in before every run. `after_op` may be NULL; otherwise it is called
     * after each op. NULL in a model with a state or with row functions. */
    void (*run)(void *arena, void (*after_op)(uint32_t op));
    /* The state, which persists between runs apart from the arena, also aligned to 16 bytes: 0 bytes and NULL in a model without a state.
     * `step` runs like `run`, and updates the state; it is NULL if the model has row functions. Call `reset` before the first
     * step. */
    uint32_t state_bytes;
    void (*reset)(void *state);
    void (*step)(void *arena, void *state, void (*after_op)(uint32_t op));
    const pillion_row_functions *row_functions;
    /* If the arena is divided among several memories: `arena` then points to their addresses, in this order. Otherwise 0 and NULL. */
    uint32_t memory_count;
    const pillion_memory *memories;
} pillion_model;

/* Returns the address of a memory: that of the arena, or of one of several memories. */
static inline uint8_t *pillion_memory_at(const pillion_model *model, void *arena, uint32_t number) {
    return (uint8_t *)(model->memory_count == 0 ? arena : ((void *const *)arena)[number]);
}

/* Returns the address of an input or output. */
static inline uint8_t *pillion_address(const pillion_model *model, void *arena, const pillion_buffer *buffer) {
    return pillion_memory_at(model, arena, buffer->memory) + buffer->offset;
}

/* Sets the state to its value before the first run, if the model has one. */
static inline void pillion_reset_state(const pillion_model *model, void *state) {
    if (model->reset != NULL) {
        model->reset(state);
    }
}

/* Runs a model. `state` may be NULL for a model without a state. */
static inline void pillion_run(const pillion_model *model, void *arena, void *state, void (*after_op)(uint32_t op)) {
    if (model->step != NULL) {
        model->step(arena, state, after_op);
    } else {
        model->run(arena, after_op);
    }
}

/* Begins a run of a model that receives an input row by row. `state` may be NULL for a model without a state. */
static inline void pillion_begin_rows(const pillion_model *model, void *arena, void *state, void (*after_op)(uint32_t op)) {
    if (model->row_functions->begin_step != NULL) {
        model->row_functions->begin_step(arena, state, after_op);
    } else {
        model->row_functions->begin(arena, after_op);
    }
}

#ifdef __cplusplus
}
#endif

#endif

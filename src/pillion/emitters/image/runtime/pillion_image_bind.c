/* SPDX-License-Identifier: Apache-2.0
 * Resolves the calls of a schedule once, in memory of the caller. */
#include "pillion_image_steps.h"

#define PER_POINTER ((uint32_t)(sizeof(uintptr_t) / 4u))

/* Writes a call at word `used`, if there is a place for it, and returns its words. */
static uint32_t bind_call(const pillion_image *model, const uint32_t *step, void *const *operands, uint32_t *to, uint32_t used) {
    const pillion_kernel *const kernel = kernel_of(model, step[0] >> 8);
    const uint32_t *const from = model->block + step[1];
    const uint32_t padding = PER_POINTER - 1u, copied = kernel->pointer_count > 0 ? kernel->words * PER_POINTER + 3u : 0;
    const uint32_t words = 1u + padding + (2u + kernel->operands) * PER_POINTER + copied;
    if (to != NULL) {
        to[used] = BOUND | words << 8;
        bound_call *const bound = bound_call_at(to + used);
        bound->call = kernel->call;
        bound->params = from;
        memcpy(bound->operands, operands, kernel->operands * sizeof *operands);
        if (copied > 0) {
            uintptr_t *const params = (uintptr_t *)(void *)(bound->operands + kernel->operands);
            load_params(model, kernel, from, params);
            bound->params = params;
        }
    }
    return words;
}

static uint32_t operands_of(const pillion_image *model, const uint32_t *step) {
    switch (*step & 0xffu) {
    case CALL:
        return kernel_of(model, *step >> 8)->operands;
    case SEGMENT:
        return (step[1] >> 8) + 1u;
    case MOVE:
        return 2;
    case FILL:
    case TAKE:
    case BRANCH:
        return 1;
    default:
        return 0;
    }
}

/* Writes all steps, if there is a place for them, and returns their words. */
static uint32_t bind_steps(pillion_image *model, uint32_t *to) {
    const uint32_t *at = model->block + ((const header *)(const void *)model->block)->schedule / 4;
    uint32_t used = 0, branches = 0, begins[PILLION_IMAGE_BRANCHES], bodies[PILLION_IMAGE_BRANCHES], kind;
    const uint32_t *ends[PILLION_IMAGE_BRANCHES];
    model->depth = 0;
    memset(model->counts, 0, sizeof model->counts);
    do {
        for (; branches > 0 && at == ends[branches - 1]; branches--) {
            if (to != NULL) {
                to[begins[branches - 1] + 1] = used - bodies[branches - 1];
            }
        }
        const uint32_t *const step = at;
        void *operands[PILLION_IMAGE_OPERANDS + 1];
        uint32_t moves = 0;
        const uint32_t count = operands_of(model, step);
        kind = *step & 0xffu;
        at += count > 0 || kind == LOOP ? 2 : 1;
        for (uint32_t i = 0; i < count; i++) {
            moves |= *at & MOVES;
            operands[i] = (void *)address(model, &at);
        }
        model->depth += (uint32_t)(kind == LOOP) - (uint32_t)(kind == END);
        if (kind == CALL && moves == 0) {
            used += bind_call(model, step, operands, to, used);
        } else {
            if (to != NULL) {
                memcpy(to + used, step, (size_t)(at - step) * 4u);
            }
            used += (uint32_t)(at - step);
        }
        if (kind == BRANCH) {
            ends[branches] = at + step[1];
            begins[branches] = used - (uint32_t)(at - step);
            bodies[branches++] = used;
        }
    } while (kind != STOP);
    return used;
}

uint32_t pillion_image_bind(pillion_image *model, void *memory, uint32_t bytes, void *arena, void *state) {
    const uint32_t needed = bind_steps(model, NULL) * 4u;
    if (memory == NULL || bytes < needed || ((uintptr_t)memory & 15u) != 0) {
        return needed;
    }
    model->bases[IN_ARENA] = (uintptr_t)arena;
    model->bases[IN_STATE] = (uintptr_t)state;
    bind_steps(model, memory);
    model->bound = memory;
    model->bound_arena = arena;
    model->bound_state = state;
    return needed;
}

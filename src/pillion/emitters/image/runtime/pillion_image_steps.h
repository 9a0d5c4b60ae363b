/* SPDX-License-Identifier: Apache-2.0
 * The steps of a schedule, for the files of the run-time alone. A schedule is a list of words. Each step begins with a word of its kind
 * (the low 8 bits) and a number; operands follow, each of a word (area, whether it moves, offset), its size, and, if it moves, one stride
 * for each enclosing loop. */
#ifndef PILLION_IMAGE_STEPS_H
#define PILLION_IMAGE_STEPS_H

#include "pillion_image.h"

#include <stddef.h>
#include <string.h>

enum { STOP, CALL, LOOP, END, MOVE, FILL, TAKE, PAUSE, DONE, SEGMENT, BRANCH, BOUND };
enum { IN_BLOCK, IN_ARENA, IN_STATE, NOWHERE };

#define AREA(word) ((word) >> 29)
#define MOVES 0x10000000u
#define OFFSET 0x0fffffffu

typedef struct {
    uint32_t magic, version, size, crc, abi, isas, arena_bytes, state_bytes, alignment;
    uint32_t schedule, schedule_words, reset, reset_words, data;
    uint32_t buffers, input_count, output_count, segments, rows, row_bytes, name, warm_up, core, checksums;
} header;

/* A call with known addresses: it follows the word BOUND, which has the number of words of both; a copy of the params may be last. */
typedef struct {
    void (*call)(const void *params, void *const *operands);
    const void *params;
    void *operands[];
} bound_call;

/* Pointers of 8 bytes may need a word of padding. */
static inline bound_call *bound_call_at(const uint32_t *at) {
    return (bound_call *)(uintptr_t)(at + 1 + (sizeof(void *) == 8 && ((uintptr_t)at & 4u) == 0));
}

static inline uintptr_t strides_of(const pillion_image *model, const uint32_t *strides) {
    uintptr_t way = 0;
    for (uint32_t i = 0; i < model->depth; i++) {
        way += (uintptr_t)(intptr_t)(int32_t)strides[i] * model->counts[i];
    }
    return way;
}

static inline uintptr_t address(const pillion_image *model, const uint32_t **from) {
    const uint32_t *const at = *from;
    const uint32_t word = *at;
    const uintptr_t place = model->bases[AREA(word)] + (word & OFFSET);
    *from = at + 2;
    if ((word & MOVES) == 0) {
        return place;
    }
    *from += model->depth;
    return place + strides_of(model, at + 2);
}

/* Copies params to where the kernel reads them, its pointers as addresses. */
static inline void load_params(const pillion_image *model, const pillion_kernel *kernel, const uint32_t *from, uintptr_t *params) {
#if UINTPTR_MAX == UINT32_MAX
    /* Four at a time: words behind the params are words of the image, too. */
    const uint32_t *const end = from + kernel->words;
    const uint8_t *const pointers = kernel->pointers, *const last = pointers + kernel->pointer_count;
    const uintptr_t block = model->bases[IN_BLOCK];
    for (uintptr_t *to = params; from < end; from += 4, to += 4) {
        const uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
    for (const uint8_t *pointer = pointers; pointer < last; pointer++) {
        params[*pointer] += block;
    }
#else
    uint8_t *const to = (uint8_t *)params;
    uint32_t pointer = 0, bytes = 0;
    for (uint32_t i = 0; i < kernel->words; i++) {
        if (pointer < kernel->pointer_count && kernel->pointers[pointer] == i) {
            const uintptr_t place = model->bases[IN_BLOCK] + from[i];
            bytes = (bytes + (uint32_t)sizeof place - 1) & ~((uint32_t)sizeof place - 1);
            memcpy(to + bytes, &place, sizeof place);
            bytes += (uint32_t)sizeof place;
            pointer++;
        } else {
            memcpy(to + bytes, &from[i], 4);
            bytes += 4;
        }
    }
#endif
}

static inline const pillion_kernel *kernel_of(const pillion_image *model, uint32_t number) {
    return &model->set->kernels[model->set->places[number] - 1];
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Which model main.c runs. */
#ifndef PILLION_HARNESS_H
#define PILLION_HARNESS_H

#include "model.h"

#define PILLION_MODEL pillion_model_@model@
/* The memory of the model: one arena, or several. PILLION_ARENA is the argument of its functions. */
#ifdef @MODEL@_EACH_MEMORY
#define PILLION_DEFINE_MEMORY(number, name, bytes)                                                                           \
    __attribute__((aligned(32), section(".pillion_memory_" #number))) uint8_t pillion_memory_##name[bytes];
#define PILLION_ADDRESS_OF_MEMORY(number, name, bytes) pillion_memory_##name,
#define PILLION_DEFINE_ARENA                                                                                                 \
    @MODEL@_EACH_MEMORY(PILLION_DEFINE_MEMORY) static void *const pillion_addresses[] = {                                    \
        @MODEL@_EACH_MEMORY(PILLION_ADDRESS_OF_MEMORY)};
#define PILLION_ARENA ((void *)(uintptr_t)pillion_addresses)
#else
#define PILLION_DEFINE_ARENA                                                                                                 \
    __attribute__((aligned(32), section(".pillion_arena"))) uint8_t pillion_arena[@MODEL@_ARENA_BYTES];
#define PILLION_ARENA ((void *)pillion_arena)
#endif
#ifdef @MODEL@_STATE_BYTES
#define PILLION_STATE_BYTES @MODEL@_STATE_BYTES
#else
#define PILLION_STATE_BYTES 0
#endif

/* Of a model that is handed its input row by row. */
#ifdef @MODEL@_ROW_BYTES
#define PILLION_ROWS @MODEL@_ROWS
#define PILLION_ROW_BYTES @MODEL@_ROW_BYTES
#else
#define PILLION_ROW_BYTES 1
#endif

#endif

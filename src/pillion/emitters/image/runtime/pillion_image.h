/* SPDX-License-Identifier: Apache-2.0
 * Runs program images: compiled models that are data (`pillion compile ... -o net.plm`), not code of the firmware.
 *
 * An image is one read-only block, aligned to 16 bytes; it may lie anywhere in flash or RAM. pillion_image_open() checks everything
 * except the numbers in the params of kernels, and the sizes of operands against them: anybody who computes a checksum can choose these. Check
 * the signature of an image from a network, or run it by pillion_guard.h, which stops kernels that leave their memory. The other functions
 * trust what pillion_image_open() accepted: the block must not change while the model is open.
 * No malloc, no stdio, no recursion, no globals: one pillion_image is one model, and several may run side by side. */
#ifndef PILLION_IMAGE_H
#define PILLION_IMAGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PILLION_IMAGE_MAGIC 0x314d4c50u /* "PLM1" */
#define PILLION_IMAGE_VERSION 1u
#define PILLION_IMAGE_LOOPS 8u        /* the most loops inside each other */
#define PILLION_IMAGE_BRANCHES 8u     /* the most branches inside each other */
#define PILLION_IMAGE_OPERANDS 8u     /* the most operands of a kernel or a segment */
#define PILLION_IMAGE_PARAM_WORDS 64u /* the most words of a kernel's params */

/* The errors of an image, or of a call. */
typedef enum {
    PILLION_IMAGE_OK = 0,
    PILLION_IMAGE_MISALIGNED, /* the block, the arena or the state is missing, or not aligned to 16 bytes */
    PILLION_IMAGE_NO_IMAGE,   /* the block does not begin as images do */
    PILLION_IMAGE_FORMAT,     /* the image has another version of the format */
    PILLION_IMAGE_TRUNCATED,  /* the block is shorter than the image */
    PILLION_IMAGE_DAMAGED,    /* the checksum is wrong */
    PILLION_IMAGE_CORE,       /* the image needs instructions that the kernel set does not have */
    PILLION_IMAGE_ABI,        /* the image was compiled for another version of the kernels */
    PILLION_IMAGE_KERNEL,     /* the kernel set lacks a kernel of the image, or calls it otherwise */
    PILLION_IMAGE_LAYOUT,     /* an offset or a size in the header leads out of the image */
    PILLION_IMAGE_SCHEDULE,   /* the schedule has an unknown step, or its loops are wrong */
    PILLION_IMAGE_BOUNDS,     /* an operand leaves its memory, is written to flash, or is not aligned */
    PILLION_IMAGE_CALL,       /* the model runs by other functions: the ones for rows, or pillion_image_run */
    PILLION_IMAGE_NPU,        /* the model has NPU segments, and `npu` is NULL, or its run is guarded */
    PILLION_IMAGE_STOPPED     /* pillion_guard.h: a kernel left its memory, or the run was stopped; outputs and state are invalid */
} pillion_image_status;

/* A kernel: the function that calls it, and the form of its call. */
typedef struct {
    void (*call)(const void *params, void *const *operands);
    const uint8_t *pointers; /* which words of the params are pointers */
    uint8_t pointer_count;
    uint8_t words;     /* of its params; a pointer is one word of the image */
    uint8_t operands;  /* inputs, perhaps the number of the first row, the output, scratch memory */
    uint8_t row;       /* the operand that is a row number; 255: none */
    uint16_t alignment; /* of each operand, 2 bits: the logarithm */
} pillion_kernel;

/* The kernels that a firmware has: `kernels.c` of `pillion kernels` defines one. */
typedef struct {
    uint32_t abi; /* a hash of all declarations of kernels */
    uint32_t isas; /* the instruction sets that the core has: 1 portable, 2 scalar, 4 DSP, 8 MVE */
    uint32_t count;
    const uint16_t *places; /* [count]: the place of each kernel below, plus 1; 0 if the firmware lacks it */
    const pillion_kernel *kernels;
} pillion_kernel_set;

/* An input or an output, as it lies in the image. */
typedef struct {
    uint32_t name;  /* the offset of its name in the image, which ends with 0 */
    uint32_t dtype; /* 0 int8, 1 uint8, 2 int16, 3 int32, 4 float32, 5 bool */
    uint32_t offset; /* in the arena; UINT32_MAX if it is handed over row by row */
    uint32_t bytes;
    uint32_t rank;
    uint32_t shape; /* the offset of its sizes in the image */
    float scale;    /* 0 if it is not quantized */
    int32_t zero_point;
} pillion_image_buffer;

/* An open model. The fields before `block` are for the caller, the rest is private. */
typedef struct pillion_image {
    uint32_t arena_bytes, state_bytes;
    uint32_t input_count, output_count;
    const pillion_image_buffer *inputs, *outputs;
    const char *name, *core;
    uint32_t rows, row_bytes; /* of the input that is handed over row by row; else 0 */
    uint32_t warm_up; /* for a stream, the first run with valid outputs, counted from 1; otherwise 0 */
    /* Runs an NPU segment; set it before the first run of a model that has some. `workspace` may be NULL. */
    void (*npu)(const struct pillion_image *model, uint32_t segment, const void *const *inputs, void *const *outputs, void *workspace);
    uint32_t segments;

    const uint32_t *block, *at, *bound;
    const void *bound_arena, *bound_state;
    const pillion_kernel_set *set;
    void (*after_op)(uint32_t op);
    uintptr_t bases[4];
    uint32_t depth, taken, missing, given_count;
    const uint8_t *given;
    uint32_t counts[PILLION_IMAGE_LOOPS];
    const uint32_t *bodies[PILLION_IMAGE_LOOPS];
} pillion_image;

/* Checks an image completely, and opens it. `model` is valid only if the result is PILLION_IMAGE_OK. */
pillion_image_status pillion_image_open(const void *block, uint32_t size, const pillion_kernel_set *set, pillion_image *model);

/* Initializes the state: before the first run of a model with state_bytes > 0. */
pillion_image_status pillion_image_reset(pillion_image *model, void *state);

/* Writes the schedule to `memory` with the addresses of all calls for runs with this arena and state, so that each call takes less time.
 * Returns the bytes that this takes; with fewer `bytes` it does no more than that. `memory` is aligned to 16 bytes and stays in use while
 * the model is open. Runs with another arena or state are as before. Not during a run by rows. */
uint32_t pillion_image_bind(pillion_image *model, void *memory, uint32_t bytes, void *arena, void *state);

/* Runs the model on the inputs in the arena, and leaves the outputs there. The inputs may be overwritten: copy them in before
 * every run. `state` may be NULL in a model without one. `after_op` may be NULL; otherwise it is called after each op. */
pillion_image_status pillion_image_run(pillion_image *model, void *arena, void *state, void (*after_op)(uint32_t op));

/* Instead of pillion_image_run, for a model with rows > 0: begins a run; takes the next rows and returns how many are missing;
 * completes the run, and returns how many rows are missing, 0 if it is complete. */
pillion_image_status pillion_image_begin(pillion_image *model, void *arena, void *state, void (*after_op)(uint32_t op));
uint32_t pillion_image_rows(pillion_image *model, const void *rows, uint32_t count);
uint32_t pillion_image_end(pillion_image *model);

#ifdef __cplusplus
}
#endif

#endif

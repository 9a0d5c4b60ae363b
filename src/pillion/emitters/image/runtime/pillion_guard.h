/* SPDX-License-Identifier: Apache-2.0
 * Runs untrusted program images, on cores of Armv8-M with the main extension and an MPU (Cortex-M33, M35P, M52, M55, M85).
 *
 * pillion_image_open() checks the schedule of an image, but not the numbers in the params of kernels. Here the kernels run unprivileged, and the
 * memory protection unit lets them read the image and `code`, and write the arena, the state and the memory of the guard, nothing else.
 * An access elsewhere, a fault or pillion_guard_stop() ends the run with PILLION_IMAGE_STOPPED, and the firmware goes on.
 *
 * The firmware calls these functions in thread mode, privileged, on the main stack, and puts pillion_guard_handler into its vector table
 * for SVCall, MemManage, BusFault and UsageFault (these three enabled in SHCSR). One core runs one guarded model at a time; the MPU's
 * settings are put back after each call. Images with NPU segments are refused: an NPU reads memory by itself. An RTOS with protection
 * (FreeRTOS-MPU, Zephyr's user mode) does the same for a task that calls pillion_image_run(). */
#ifndef PILLION_GUARD_H
#define PILLION_GUARD_H

#include "pillion_image.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PILLION_GUARD_ALIGNMENT 32u /* of the image, the arena, the state, their sizes in memory, and all of the following */

typedef struct {
    const void *code, *code_end; /* the functions of the kernels and of the run-time, with their constants */
    void *memory;                /* the stack of the kernels, and the open model during a run; it lasts from begin to end */
    uint32_t bytes;              /* of `memory`: sizeof(pillion_image) + 256, and the stack: 2 KB hold for all kernels */
} pillion_guard;

/* As the functions of pillion_image.h. PILLION_IMAGE_MISALIGNED: also where memories overlap, or the core has too few regions. */
pillion_image_status pillion_guard_reset(const pillion_guard *guard, const pillion_image *model, void *state);
pillion_image_status pillion_guard_run(const pillion_guard *guard, const pillion_image *model, void *arena, void *state);
pillion_image_status pillion_guard_begin(const pillion_guard *guard, const pillion_image *model, void *arena, void *state);
/* Sets `missing` to the number of missing rows. Uses the arena and the state of pillion_guard_begin(). */
pillion_image_status pillion_guard_rows(const pillion_guard *guard, const pillion_image *model, void *arena, void *state, const void *rows, uint32_t count, uint32_t *missing);
pillion_image_status pillion_guard_end(const pillion_guard *guard, const pillion_image *model, void *arena, void *state, uint32_t *missing);

/* Ends the run that an interrupt has interrupted: call it from a timer, as an image may loop for hours. */
void pillion_guard_stop(void);

/* The handler of SVCall, MemManage, BusFault and UsageFault. Exceptions that are not a guarded run's go to pillion_guard_other(), which the
 * firmware may define; it is entered as a handler, with the stacks as they were. */
void pillion_guard_handler(void);
void pillion_guard_other(void);

#ifdef __cplusplus
}
#endif

#endif

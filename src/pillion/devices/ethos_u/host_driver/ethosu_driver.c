/* SPDX-License-Identifier: Apache-2.0
 * Replaces Arm's driver on this computer: it sends each call to the process that has started this one, which executes the commands and
 * returns the scratch memory.
 *
 * The channel is a file descriptor, whose number the environment names. A question is its length, then the numbers of bytes of
 * commands, constants, scratch memory and fast memory, then commands, constants and scratch memory. The first question of a run has
 * only commands; its answer is the number of bytes of constants, which Arm's driver does not learn if no constants are written back.
 * The answer to the second question is the scratch memory. Each answer begins with its length, which is 0 if the question was refused.
 * All numbers have 64 bits. A call that Arm's driver itself would refuse becomes an empty question. */
#include "ethosu_driver.h"

#include <stdlib.h>
#include <unistd.h>

enum { CONSTANTS, SCRATCH, FAST, REGIONS };
/* Arm's driver refuses addresses that are not multiples of this. */
#define ALIGNMENT 16u

struct ethosu_driver {
    int reserved;
    /* The started call that nobody awaited yet, and how often it still reports that it runs. Like Arm's, it keeps the addresses of the arrays. */
    const void *commands;
    int command_bytes, regions, running;
    uint64_t *bases;
    const size_t *sizes;
};
static struct ethosu_driver npu;

static int channel(void) {
    const char *number = getenv("PILLION_NPU");
    return number == NULL ? -1 : atoi(number);
}

static int put(const void *from, size_t bytes) {
    const uint8_t *at = from;
    while (bytes > 0) {
        const ssize_t done = write(channel(), at, bytes);
        if (done <= 0) {
            return 0;
        }
        at += done;
        bytes -= (size_t)done;
    }
    return 1;
}

static int take(void *to, size_t bytes) {
    uint8_t *at = to;
    while (bytes > 0) {
        const ssize_t done = read(channel(), at, bytes);
        if (done <= 0) {
            return 0;
        }
        at += done;
        bytes -= (size_t)done;
    }
    return 1;
}

static int refused(void) {
    uint64_t nothing = 0;
    (void)(put(&nothing, sizeof nothing) && take(&nothing, sizeof nothing));
    return -1;
}

struct ethosu_driver *ethosu_reserve_driver(void) {
    if (npu.reserved) {
        refused(); /* Arm's would wait for ever */
        return NULL;
    }
    npu.reserved = 1;
    return &npu;
}

void ethosu_release_driver(struct ethosu_driver *drv) {
    drv->reserved = 0;
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg) {
    (void)user_arg;
    if (!drv->reserved || num_base_addr != REGIONS || custom_data_size <= 0) {
        return refused();
    }
    if ((uintptr_t)custom_data_ptr % ALIGNMENT || base_addr[CONSTANTS] % ALIGNMENT || base_addr[SCRATCH] % ALIGNMENT) {
        return refused();
    }
    const uint64_t commands[4] = {(uint64_t)custom_data_size, 0, 0, 0};
    uint64_t constant_bytes, length = sizeof commands + commands[0], answered;
    if (!put(&length, sizeof length) || !put(commands, sizeof commands) || !put(custom_data_ptr, (size_t)commands[0]) ||
        !take(&answered, sizeof answered) || answered != sizeof constant_bytes || !take(&constant_bytes, sizeof constant_bytes)) {
        return -1;
    }
    if (base_addr_size[CONSTANTS] != 0 && base_addr_size[CONSTANTS] != constant_bytes) {
        return refused();
    }
    const uint64_t sizes[4] = {commands[0], constant_bytes, base_addr_size[SCRATCH], base_addr_size[FAST]};
    length = sizeof sizes + sizes[0] + sizes[1] + sizes[2];
    void *const scratch = (void *)(uintptr_t)base_addr[SCRATCH];
    if (!put(&length, sizeof length) || !put(sizes, sizeof sizes) || !put(custom_data_ptr, (size_t)sizes[0]) ||
        !put((const void *)(uintptr_t)base_addr[CONSTANTS], (size_t)sizes[1]) || !put(scratch, (size_t)sizes[2]) ||
        !take(&answered, sizeof answered) || answered != sizes[2]) {
        return -1;
    }
    return take(scratch, (size_t)answered) ? 0 : -1;
}

int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg) {
    (void)user_arg;
    if (!drv->reserved || drv->commands != NULL || custom_data_ptr == NULL) {
        return refused();
    }
    drv->commands = custom_data_ptr;
    drv->command_bytes = custom_data_size;
    drv->bases = base_addr;
    drv->sizes = base_addr_size;
    drv->regions = num_base_addr;
    drv->running = 2;
    return 0;
}

/* Runs the started call, as late as possible. */
int ethosu_wait(struct ethosu_driver *drv, bool block) {
    if (drv->commands == NULL) {
        refused();
        return -2;
    }
    if (!block && drv->running-- > 0) {
        return 1;
    }
    const void *const commands = drv->commands;
    drv->commands = NULL;
    return ethosu_invoke_v3(drv, commands, drv->command_bytes, drv->bases, drv->sizes, drv->regions, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Arm semihosting for Cortex-M: `bkpt 0xab` with the operation in r0 and its argument in r1. */
#include "semihosting.h"

#include <string.h>

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_SEEK = 0x0a,
    SYS_FLEN = 0x0c,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT = 0x18
};

/* What SYS_EXIT takes: ADP_Stopped_ApplicationExit ends with status 0, ADP_Stopped_RunTimeErrorUnknown with 1. */
#define EXIT_WITH_SUCCESS 0x20026u
#define EXIT_WITH_ERROR 0x20023u

/* The name by which SYS_OPEN gives the console, and "wb", which makes it standard output. */
#define CONSOLE ":tt"

static int32_t call(uint32_t operation, uintptr_t argument) {
    register uintptr_t r0 __asm("r0") = operation;
    register uintptr_t r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

static int32_t call3(uint32_t operation, uintptr_t a, uintptr_t b, uintptr_t c) {
    const uintptr_t block[3] = {a, b, c};
    return call(operation, (uintptr_t)block);
}

int32_t semihost_open(const char *path, semihost_mode mode) {
    return call3(SYS_OPEN, (uintptr_t)path, (uintptr_t)mode, strlen(path));
}

/* SYS_READ and SYS_WRITE give the bytes that are still to do. A debugger may take a large block in pieces. */
int32_t semihost_read(int32_t file, void *to, uint32_t bytes) {
    uint8_t *next = to;
    while (bytes > 0) {
        const int32_t left = call3(SYS_READ, (uintptr_t)file, (uintptr_t)next, bytes);
        if (left < 0 || (uint32_t)left >= bytes) {
            return -1;
        }
        next += bytes - (uint32_t)left;
        bytes = (uint32_t)left;
    }
    return 0;
}

int32_t semihost_write(int32_t file, const void *from, uint32_t bytes) {
    const uint8_t *next = from;
    while (bytes > 0) {
        const int32_t left = call3(SYS_WRITE, (uintptr_t)file, (uintptr_t)next, bytes);
        if (left < 0 || (uint32_t)left >= bytes) {
            return -1;
        }
        next += bytes - (uint32_t)left;
        bytes = (uint32_t)left;
    }
    return 0;
}

int32_t semihost_rewind(int32_t file) {
    return call3(SYS_SEEK, (uintptr_t)file, 0, 0);
}

int32_t semihost_length(int32_t file) {
    return call3(SYS_FLEN, (uintptr_t)file, 0, 0);
}

int32_t semihost_close(int32_t file) {
    return call3(SYS_CLOSE, (uintptr_t)file, 0, 0);
}

void semihost_print(const char *text) {
    static int32_t console = -1;
    if (console < 0) {
        console = semihost_open(CONSOLE, SEMIHOST_WRITE);
    }
    (void)semihost_write(console, text, strlen(text));
}

void semihost_arguments(char *text, uint32_t bytes) {
    uintptr_t block[2] = {(uintptr_t)text, bytes};
    __asm volatile("" : : "r"(block) : "memory");
    if (call(SYS_GET_CMDLINE, (uintptr_t)block) != 0) {
        text[0] = '\0';
    }
}

void semihost_exit(int32_t status) {
    for (;;) {
        (void)call(SYS_EXIT, status == 0 ? EXIT_WITH_SUCCESS : EXIT_WITH_ERROR);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * The harness on a PC: files and text by the C library, time by its clock. The stack is not measured here. */
#include "board.h"
#include "semihosting.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_FILES 4

/* CLOCKS_PER_SEC is a million wherever POSIX is followed. */
const char pillion_tick_ns[] = "1000";

static FILE *files[MOST_FILES];

int32_t semihost_open(const char *path, semihost_mode mode) {
    for (int32_t i = 0; i < MOST_FILES; i++) {
        if (files[i] == NULL) {
            files[i] = fopen(path, mode == SEMIHOST_READ ? "rb" : "wb");
            return files[i] == NULL ? -1 : i;
        }
    }
    return -1;
}

int32_t semihost_read(int32_t file, void *to, uint32_t bytes) {
    return fread(to, 1, bytes, files[file]) == bytes ? 0 : -1;
}

int32_t semihost_write(int32_t file, const void *from, uint32_t bytes) {
    return fwrite(from, 1, bytes, files[file]) == bytes ? 0 : -1;
}

int32_t semihost_seek(int32_t file, uint32_t position) {
    return fseek(files[file], (long)position, SEEK_SET) == 0 ? 0 : -1;
}

int32_t semihost_length(int32_t file) {
    FILE *const f = files[file];
    const long here = ftell(f);
    if (here < 0 || fseek(f, 0, SEEK_END) != 0) {
        return -1;
    }
    const long length = ftell(f);
    return length <= INT32_MAX && fseek(f, here, SEEK_SET) == 0 ? (int32_t)length : -1;
}

int32_t semihost_close(int32_t file) {
    FILE *const f = files[file];
    files[file] = NULL;
    return fclose(f) == 0 ? 0 : -1;
}

void semihost_print(const char *text) {
    fputs(text, stdout);
}

void semihost_arguments(char *text, uint32_t bytes) {
    /* main() has them already. */
    if (bytes > 0) {
        text[0] = '\0';
    }
}

void semihost_exit(int32_t status) {
    exit(status);
}

uint32_t pillion_run_on_painted_stack(void (*run)(void)) {
    run();
    return PILLION_STACK_UNKNOWN;
}

void pillion_clock_start(void) {
}

uint64_t pillion_clock_now(void) {
    return (uint64_t)clock() * (UINT64_C(1000000) / CLOCKS_PER_SEC);
}

uint64_t pillion_clock_wrap_ticks(void) {
    return 0;
}

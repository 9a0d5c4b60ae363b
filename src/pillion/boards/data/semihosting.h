/* SPDX-License-Identifier: Apache-2.0
 * Files and text on the computer that runs the emulator or holds the debug probe. semihosting.c does this by
 * Arm semihosting (document IHI 0100), host.c with the C library. */
#ifndef PILLION_SEMIHOSTING_H
#define PILLION_SEMIHOSTING_H

#include <stdint.h>

typedef enum { SEMIHOST_READ = 1, SEMIHOST_WRITE = 5 } semihost_mode; /* "rb" and "wb" in the table of SYS_OPEN */

/* A handle, or -1. */
int32_t semihost_open(const char *path, semihost_mode mode);
/* All of them or an error: 0 is success. */
int32_t semihost_read(int32_t file, void *to, uint32_t bytes);
int32_t semihost_write(int32_t file, const void *from, uint32_t bytes);
int32_t semihost_rewind(int32_t file);
/* -1 when it cannot be told. */
int32_t semihost_length(int32_t file);
int32_t semihost_close(int32_t file);

void semihost_print(const char *text);
/* The words given to the program, separated by blanks; empty when there are none. */
void semihost_arguments(char *text, uint32_t bytes);
void semihost_exit(int32_t status) __attribute__((noreturn));

#endif

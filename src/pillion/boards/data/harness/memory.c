/* SPDX-License-Identifier: Apache-2.0
 * The five functions that a compiler calls without being asked. A project that links a C library leaves this
 * file out. The empty asm in each loop keeps the compiler from seeing a memcpy in memcpy and calling it. */
#include <stddef.h>
#include <stdint.h>

#define KEEP_LOOP __asm volatile("" : : : "memory")

/* Armv7-M and later read and write words at any address in ordinary memory; before, the compiler takes bytes. */
typedef uint32_t __attribute__((may_alias, aligned(1))) word;

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    uint8_t *y = to;
    const uint8_t *x = from;
    for (; bytes >= 16; bytes -= 16, x += 16, y += 16) {
        KEEP_LOOP;
        const word *in = (const word *)x;
        word *out = (word *)y;
        const uint32_t a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a, out[1] = b, out[2] = c, out[3] = d;
    }
    while (bytes-- > 0) {
        KEEP_LOOP;
        *y++ = *x++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
    uint8_t *y = to;
    const uint8_t *x = from;
    /* Forward is right unless `to` begins inside `from`; memcpy may not be given places that overlap. */
    if ((uintptr_t)y - (uintptr_t)x >= bytes) {
        for (size_t i = 0; i < bytes; i++) {
            KEEP_LOOP;
            y[i] = x[i];
        }
    } else {
        while (bytes-- > 0) {
            KEEP_LOOP;
            y[bytes] = x[bytes];
        }
    }
    return to;
}

void *memset(void *to, int value, size_t bytes) {
    uint8_t *y = to;
    const uint32_t four = (uint32_t)(uint8_t)value * 0x01010101u;
    for (; bytes >= 16; bytes -= 16, y += 16) {
        KEEP_LOOP;
        word *out = (word *)y;
        out[0] = four, out[1] = four, out[2] = four, out[3] = four;
    }
    while (bytes-- > 0) {
        KEEP_LOOP;
        *y++ = (uint8_t)value;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes) {
    const uint8_t *x = a;
    const uint8_t *y = b;
    for (size_t i = 0; i < bytes; i++) {
        KEEP_LOOP;
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') {
        KEEP_LOOP;
        length++;
    }
    return length;
}

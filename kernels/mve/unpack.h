/* SPDX-License-Identifier: Apache-2.0
 * Weights of four bits become the bytes that other kernels read: once for many pixels, and for a few channels at a time. A vector of 16 bytes
 * holds two vectors of weights, the first one in the low halves. */
#ifndef PILLION_MVE_UNPACK_H
#define PILLION_MVE_UNPACK_H

#include <stdint.h>
#include <string.h>

/* At least one vector. */
static inline void pillion_mve_unpack(int8_t *to, const int8_t *from, int32_t vectors) {
    __asm__ volatile(
        "dls lr, %[vectors]\n"
        "1: vldrb.u8 q0, [%[from]], #16\n"
        "vshr.s8 q1, q0, #4\n"
        "vshl.i8 q0, q0, #4\n"
        "vshr.s8 q0, q0, #4\n"
        "vstrb.8 q0, [%[to]], #16\n"
        "vstrb.8 q1, [%[to]], #16\n"
        "le lr, 1b\n"
        : [to] "+&r"(to), [from] "+&r"(from)
        : [vectors] "r"(vectors)
        : "lr", "q0", "q1", "memory");
}

/* The constants of a group of eight channels (dot.h): so many bytes before the biases, then each half of the channels. */
static inline void pillion_mve_unpack_group(int8_t *to, const int8_t *from, int32_t head, int32_t vectors) {
    head += 16;
    for (int32_t half = 0; half < 2; half++, head = 16) {
        memcpy(to, from, (size_t)head);
        to += head, from += head;
        pillion_mve_unpack(to, from, vectors);
        to += 32 * vectors, from += 16 * vectors;
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Weights of four bits become the bytes that other kernels read: once for many pixels, and for a few channels at a time. A vector of 16 bytes
 * holds two vectors of weights, the first one in the low halves. */
#ifndef PILLION_MVE_UNPACK_H
#define PILLION_MVE_UNPACK_H

#include "bytes.h"
#include "dot.h"

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

/* The constants of eight channels (dot.h): so many bytes before the biases, then each half of the channels. */
static inline void pillion_mve_unpack_group(int8_t *to, const int8_t *from, int32_t head, int32_t vectors) {
    head += 16;
    for (int32_t half = 0; half < 2; half++, head = 16) {
        pillion_mve_copy(to, from, head);
        to += head, from += head;
        pillion_mve_unpack(to, from, vectors);
        to += 32 * vectors, from += 16 * vectors;
    }
}

enum { PILLION_MVE_ROOM_BYTES = 1024 }; /* bytes unpacked together, if they are several groups */

/* Dot products with weights of four bits (dot.h). Eight channels have so many bytes of results and of constants before the biases, and so many
 * vectors for each half of the channels. */
static inline void pillion_mve_dot_by_unpacking(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y, int32_t eight, int32_t head,
                                                int32_t vectors, pillion_mve_products all, pillion_mve_some_products some) {
    const int32_t from_bytes = head + 32 + 32 * vectors, bytes = head + 32 + 64 * vectors;
    const int32_t together = bytes < PILLION_MVE_ROOM_BYTES ? PILLION_MVE_ROOM_BYTES / bytes : 1;
    const int8_t *from = (const int8_t *)d->constants;
    pillion_mve_dot_task part = *d;
    part.constants = (const int32_t *)(void *)d->room;
    if (d->out_c < eight) {
        pillion_mve_unpack_group(d->room, from, head, vectors);
        all(&part, x, y);
        return;
    }
    for (int32_t channel = 0, groups; channel < d->out_c; channel += groups * eight) {
        const int32_t left = (d->out_c - channel) / eight;
        int8_t *out = y + channel;
        groups = left < together ? left : together;
        if (left == 0) { /* the last eight channels, some of them again */
            groups = 1;
            out = y + d->out_c - eight;
        }
        for (int32_t i = 0; i < groups; i++, from += from_bytes) {
            pillion_mve_unpack_group(d->room + i * bytes, from, head, vectors);
        }
        some(&part, x, out, groups);
    }
}

#endif

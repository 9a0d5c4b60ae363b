/* SPDX-License-Identifier: Apache-2.0
 * Runs of bytes of any length, with tail-predicated loops. In assembly, because GCC 12 makes no such loops from
 * intrinsics, and moves every predicate through a core register. */
#ifndef PILLION_MVE_BYTES_H
#define PILLION_MVE_BYTES_H

#include <stdint.h>

static inline void pillion_mve_copy(int8_t *to, const int8_t *from, int32_t count) {
    __asm__ volatile(
        "wlstp.8 lr, %2, 2f\n"
        "1: vldrb.u8 q0, [%1], #16\n"
        "vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(to), "+&r"(from)
        : "r"(count)
        : "lr", "q0", "cc", "memory");
}

static inline void pillion_mve_fill(int8_t *to, int32_t value, int32_t count) {
    __asm__ volatile(
        "vdup.8 q0, %1\n"
        "wlstp.8 lr, %2, 2f\n"
        "1: vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(to)
        : "r"(value), "r"(count)
        : "lr", "q0", "cc", "memory");
}

/* 16 bytes of each of some pixels, `step` bytes apart, side by side; at least one pixel. */
static inline void pillion_mve_copy_plane(int8_t *to, const int8_t *from, int32_t step, int32_t count) {
    __asm__ volatile(
        "dls lr, %2\n"
        "1: vldrb.u8 q0, [%1]\n"
        "add %1, %3\n"
        "vstrb.8 q0, [%0], #16\n"
        "le lr, 1b\n"
        : "+&r"(to), "+&r"(from)
        : "r"(count), "r"(step)
        : "lr", "q0", "cc", "memory");
}

/* The fused output range, afterwards and in place: the kernels saturate to int8, which is all that most models need. */
static inline void pillion_mve_clamp(int8_t *y, int32_t count, int32_t low, int32_t high) {
    if (low <= -128 && high >= 127) {
        return;
    }
    __asm__ volatile(
        "vdup.8 q1, %1\n"
        "vdup.8 q2, %2\n"
        "wlstp.8 lr, %3, 2f\n"
        "1: vldrb.u8 q0, [%0]\n"
        "vmax.s8 q0, q0, q1\n"
        "vmin.s8 q0, q0, q2\n"
        "vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(y)
        : "r"(low), "r"(high), "r"(count)
        : "lr", "q0", "q1", "q2", "cc", "memory");
}

#endif

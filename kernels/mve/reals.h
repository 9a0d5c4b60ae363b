/* SPDX-License-Identifier: Apache-2.0
 * float32 to integers and back, four at a time. VCVTN rounds ties to even, saturates, and turns NaN into 0.
 * Where x may be y, each four is read before it is written. */
#ifndef PILLION_MVE_REALS_H
#define PILLION_MVE_REALS_H

#include <stdint.h>

static inline uint32_t bits_of(float number) {
    const union {
        float number;
        uint32_t bits;
    } same = {number};
    return same.bits;
}

/* `narrow` makes results of q0, with the zero point %4, and `store` writes four of them to %1. */
#define QUANTIZE(x, y, count, reciprocal, out_zp, narrow, store)       \
    __asm__ volatile(                                                  \
        "wlstp.32 lr, %2, 2f\n"                                        \
        "1: vldrw.u32 q0, [%0], #16\n"                                 \
        "vmul.f32 q0, q0, %3\n"                                        \
        "vcvtn.s32.f32 q0, q0\n" narrow store                          \
        "letp lr, 1b\n"                                                \
        "2:\n"                                                         \
        : "+&r"(x), "+&l"(y)                                           \
        : "r"(count), "r"(bits_of(reciprocal)), "r"(out_zp)            \
        : "lr", "q0", "cc", "memory")

/* `load` reads four integers from %0. */
#define DEQUANTIZE(x, y, count, scale, in_zp, load)                    \
    __asm__ volatile(                                                  \
        "wlstp.32 lr, %2, 2f\n"                                        \
        "1: " load                                                     \
        "vsub.i32 q0, q0, %4\n"                                        \
        "vcvt.f32.s32 q0, q0\n"                                        \
        "vmul.f32 q0, q0, %3\n"                                        \
        "vstrw.32 q0, [%1], #16\n"                                     \
        "letp lr, 1b\n"                                                \
        "2:\n"                                                         \
        : "+&l"(x), "+&r"(y)                                           \
        : "r"(count), "r"(bits_of(scale)), "r"(in_zp)                  \
        : "lr", "q0", "cc", "memory")

#endif

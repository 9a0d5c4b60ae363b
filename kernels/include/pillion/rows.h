/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a later step still needs go to the front of their buffer. */
#ifndef PILLION_ROWS_H
#define PILLION_ROWS_H

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
typedef uint32_t __attribute__((may_alias)) pillion_word;
#else
typedef uint32_t pillion_word;
#endif

/* Copies bytes towards lower addresses, or to memory that does not overlap them. The areas may overlap and need no alignment: every byte is
 * loaded before it is overwritten, because `to` lies before `from`. */
static inline void pillion_move_rows(void *to, const void *from, uint32_t bytes) {
    uint8_t *put = to;
    const uint8_t *take = from;
#if defined(__ARM_FEATURE_MVE)
    __asm__ volatile("wls lr, %2, 2f\n"
                     "1: vldrb.u8 q0, [%0], #16\n"
                     "vldrb.u8 q1, [%0], #16\n"
                     "vstrb.8 q0, [%1], #16\n"
                     "vstrb.8 q1, [%1], #16\n"
                     "le lr, 1b\n"
                     "2: wlstp.8 lr, %3, 4f\n"
                     "3: vldrb.u8 q0, [%0], #16\n"
                     "vstrb.8 q0, [%1], #16\n"
                     "letp lr, 3b\n"
                     "4:\n"
                     : "+&l"(take), "+&l"(put)
                     : "r"(bytes / 32), "r"(bytes % 32)
                     : "lr", "q0", "q1", "cc", "memory");
#else
#if defined(__ARM_ARCH) && !defined(__ARM_FEATURE_UNALIGNED)
    /* A word at an odd address is a fault. */
    if ((((uintptr_t)put | (uintptr_t)take) & 3u) == 0) {
        for (; bytes >= 8; bytes -= 8, put += 8, take += 8) {
            const uint32_t first = *(const pillion_word *)(const void *)take;
            const uint32_t second = *(const pillion_word *)(const void *)(take + 4);
            *(pillion_word *)(void *)put = first;
            *(pillion_word *)(void *)(put + 4) = second;
        }
    }
#else
    while (bytes >= 8) {
        uint32_t first, second;
        memcpy(&first, take, 4);
        memcpy(&second, take + 4, 4);
        memcpy(put, &first, 4);
        memcpy(put + 4, &second, 4);
        put += 8;
        take += 8;
        bytes -= 8;
    }
    if (bytes & 4) {
        uint32_t word;
        memcpy(&word, take, 4);
        memcpy(put, &word, 4);
        put += 4;
        take += 4;
        bytes -= 4;
    }
#endif
    while (bytes > 0) {
        *put++ = *take++;
        bytes--;
    }
#endif
}

#endif

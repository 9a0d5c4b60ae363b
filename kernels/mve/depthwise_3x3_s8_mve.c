/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3, stride 1, by strips (strips.h).
 *
 * A window of 4x4 makes four outputs: the kernel lies in q0 to q3 at its four places in the window, with zeros around
 * (lanes that a predicate keeps from being loaded), and four VMLADAV are 36 products each. Two windows are requantized
 * together; eight outputs are written by a scattering store with the offsets in q7. All strips of a channel are made
 * before its outputs: y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "strips.h"

#define WINDOW(q)                            \
    "vldrb.u8 q4, [r1], #8\n"                \
    "vmladav.s8 r0, q0, q4\n"                \
    "vmladav.s8 r2, q1, q4\n"                \
    "vmladav.s8 r4, q2, q4\n"                \
    "vmladav.s8 r6, q3, q4\n"                \
    "vmov " q "[2], " q "[0], r0, r4\n"      \
    "vmov " q "[3], " q "[1], r2, r6\n"

#define FIX(q) "vqdmlah.s32 " q ", " q ", lr\n"
#define NO_FIX(q) ""

/* All outputs of a channel. lr, the number of blocks left, serves as the positive number of the sign fix. The lanes of
 * the lower row come first: where there is none, they go where those of the upper row go after them. */
#define OUTPUTS(name, fix)                                                   \
    PILLION_NAKED static void name(PILLION_UNUSED const pillion_mve_strip_channel *channel,  \
                           PILLION_UNUSED const pillion_mve_strip_pass *passes) {    \
        __asm__ volatile(                                                    \
            "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"             \
            "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"                 \
            "mov r11, r1\n"                                                  \
            "ldm r0, {r1, r2, r3, r4, r8}\n"                                 \
            "push {r1, r2}\n" /* strips, y */                                \
            "movw r1, #0x0fff\n"                                             \
            "vmsr p0, r1\n"                                                  \
            "vpstt\n"                                                        \
            "vldrbt.u8 q0, [r4, #-1]\n"                                      \
            "vldrbt.u8 q2, [r4]\n"                                           \
            "movw r1, #0xfff0\n"                                             \
            "vmsr p0, r1\n"                                                  \
            "vpstt\n"                                                        \
            "vldrbt.u8 q1, [r4, #-5]\n"                                      \
            "vldrbt.u8 q3, [r4, #-4]\n"                                      \
            "ldm r3, {r3, r5, r7}\n" /* bias, multiplier, shift */           \
            "0:\n"                                                           \
            "ldrd lr, r10, [r11, #8]\n"                                      \
            "ldrd r4, r12, [r11, #16]\n"                                     \
            "ldr r6, [r11, #24]\n"                                           \
            "vldrh.u16 q7, [r11, #32]\n"                                     \
            "ldrd r1, r9, [sp]\n"                                            \
            "add r12, r1\n"                                                  \
            "add r1, r4\n"                                                   \
            "add r9, r6\n"                                                   \
            "1:\n"                                                           \
            "dls lr, lr\n"                                                   \
            "2:\n" WINDOW("q5") WINDOW("q6")                                 \
            "vadd.i32 q5, q5, r3\n"                                          \
            "vadd.i32 q6, q6, r3\n"                                          \
            "vqrdmulh.s32 q5, q5, r5\n"                                      \
            "vqrdmulh.s32 q6, q6, r5\n"                                      \
            fix("q5") fix("q6")                                              \
            "vrshl.s32 q5, r7\n"                                             \
            "vrshl.s32 q6, r7\n"                                             \
            "vqmovnb.s32 q5, q5\n"                                           \
            "vqmovnt.s32 q5, q6\n"                                           \
            "vqadd.s16 q5, q5, r8\n"                                         \
            "vqmovnb.s16 q5, q5\n"                                           \
            "vstrb.16 q5, [r9, q7]\n"                                        \
            "add r9, r10\n"                                                  \
            "le lr, 2b\n"                                                    \
            "ldm r11, {r0, r2, lr}\n"                                        \
            "add r1, r0\n"                                                   \
            "add r9, r2\n"                                                   \
            "cmp r1, r12\n"                                                  \
            "bne 1b\n"                                                       \
            "ldr r0, [r11, #28]\n"                                           \
            "add r11, #48\n"                                                 \
            "cmp r0, #0\n"                                                   \
            "beq 0b\n"                                                       \
            "add sp, #8\n"                                                   \
            "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n"                  \
            "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");            \
    }

OUTPUTS(outputs, FIX)
OUTPUTS(outputs_relu, NO_FIX)

void pillion_depthwise_3x3_s8_mve(const pillion_depthwise_3x3_s8_mve_params *p, const int8_t *x, int8_t *y,
                                         void *scratch) {
    pillion_mve_strips(p, x, y, scratch, p->relu ? outputs_relu : outputs);
}

#endif

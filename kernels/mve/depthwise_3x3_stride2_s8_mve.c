/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3, stride 2, by strips (strips.h).
 *
 * A window of 4x4 makes one output: the kernel lies in q0, with zeros below and on the right. Eight outputs side by side
 * are requantized together and written by a scattering store with the offsets in q7. All strips of a channel are made
 * before its outputs: y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "strips.h"

#define WINDOW(sum)                          \
    "vldrb.u8 q4, [r1], #8\n"                \
    "vmladav.s8 " sum ", q0, q4\n"

#define WINDOWS(q)                                        \
    WINDOW("r0") WINDOW("r2") WINDOW("r4") WINDOW("r6")   \
    "vmov " q "[2], " q "[0], r0, r4\n"                   \
    "vmov " q "[3], " q "[1], r2, r6\n"

#define FIX(q) "vqdmlah.s32 " q ", " q ", lr\n"
#define NO_FIX(q) ""

/* All outputs of a channel. lr, the number of blocks left, serves as the positive number of the sign fix. */
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
            "vpst\n"                                                         \
            "vldrbt.u8 q0, [r4]\n"                                           \
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
            "2:\n" WINDOWS("q5") WINDOWS("q6")                               \
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

void pillion_depthwise_3x3_stride2_s8_mve(const pillion_depthwise_3x3_stride2_s8_mve_params *p, const int8_t *x,
                                            int8_t *y, void *scratch) {
    pillion_mve_strips(p, x, y, scratch, p->relu ? outputs_relu : outputs);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A function of one number of 16 bits by a table with entries per octave, four elements at a time: VCLZ finds the octave, two gathers
 * the ends of a line. y may be x. Registers: q0 elements, then -1 where they are negative, q1 places between entries, q2 shifts,
 * q3 entries, q4 and q5 ends of lines, q6 and q7 masks. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_octave_lut_s16_mve(const pillion_octave_lut_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    __asm__ volatile(
        "vmov.i32 q6, #127\n"
        "vmov.i32 q7, #0x3fff\n"
        "wlstp.32 lr, %[count], 2f\n"
        "1:\n"
        "vldrh.s32 q0, [%[x]], #8\n"
        "vabs.s32 q1, q0\n"
        "vorr q2, q1, q6\n"
        "vclz.i32 q2, q2\n"
        "vsub.i32 q2, q2, %[eleven]\n"
        "vshl.u32 q1, q1, q2\n"
        "vshr.u32 q3, q1, #14\n"
        "vand q1, q1, q7\n"
        "vadd.i32 q3, q3, %[above]\n"
        "vmla.s32 q3, q2, %[octave]\n"
        "vshr.s32 q0, q0, #31\n"
        "vmla.s32 q3, q0, %[side]\n"
        "vldrh.s32 q4, [%[table], q3, uxtw #1]\n"
        "vldrh.s32 q5, [%[next], q3, uxtw #1]\n"
        "vsub.i32 q5, q5, q4\n"
        "vmul.i32 q5, q5, q1\n"
        "vrshr.s32 q5, q5, #14\n"
        "vadd.i32 q4, q4, q5\n"
        "vstrh.32 q4, [%[y]], #8\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [y] "+&l"(y)
        : [count] "r"(p->count), [table] "r"(p->table), [next] "r"(p->table + 1), [eleven] "r"(11), [side] "r"(PILLION_SIDE),
          [above] "r"(PILLION_SIDE + 14 * PILLION_OCTAVE), [octave] "r"(-PILLION_OCTAVE)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

#endif

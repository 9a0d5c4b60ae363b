/* SPDX-License-Identifier: Apache-2.0
 * The loops of the dot products for 2, 3 and 4 pieces of 16 inputs, without a loop over pieces; see dot_asm.h. The including file defines
 * PRODUCTS(first, second), of a piece of both pixels with the weights of four channels (or has sums of its own for PAIRS), NUMBERS, which loads the numbers of a group of channels,
 * and RESULTS(y), which turns sums into results and stores them.
 * Registers: as dot_asm.h says, but r1 and r3 stay at their pixels, r7 is y, and r9 points to the part of the state that
 * comes back after the sums. Of 2 pieces, those of the inputs stay in q0 q1 q6 q7 for all eight channels. */

#define PIECE_AT(place)                        \
    "vldrb.u8 q0, [r1, #" place "]\n"          \
    "vldrb.u8 q1, [r3, #" place "]\n"          \
    PRODUCTS("q0", "q1")
#define LOAD_RESULTS "ldm r9, {r2, r4, r5, r6, r8, r10, r12}\n"

/* The sums of four channels, twice: `first` and `again` set up their registers, `constants` restores q6 and q7. */
#define PAIRS(name, first, again, constants)                                    \
    static __attribute__((noinline)) void name(pillion_mve_pairs *s) {          \
        register pillion_mve_pairs *r0 __asm__("r0") = s;                       \
        __asm__ volatile(                                                       \
            "push {r7, r11}\n"                                                  \
            "mov r11, r0\n"                                                     \
            "ldr r2, [r11, #8]\n"                                               \
            "ldr r5, [r11, #20]\n"                                              \
            "add r9, r11, #132\n"                                               \
            "0:\n" NUMBERS                                                      \
            "ldm r11, {r0, r1, r2, r3}\n"                                       \
            "mov r7, r0\n"                                                      \
            "1:\n" LOAD_BIAS first MOVE_SUMS("q4", "q5")                        \
            LOAD_BIAS again MOVE_SUMS("q0", "q1")                               \
            LOAD_RESULTS constants RESULTS("r7")                                \
            "add r1, r8\n"                                                      \
            "add r3, r8\n"                                                      \
            "cmp r7, r6\n"                                                      \
            "bne.w 1b\n"                                                        \
            "ldr r2, [r11, #56]\n" /* to the next row */                        \
            "subs r2, #1\n"                                                     \
            "beq 8f\n"                                                          \
            "str r2, [r11, #56]\n"                                              \
            "ldrd r2, r4, [r11, #60]\n"                                         \
            "add r1, r2\n"                                                      \
            "add r3, r2\n"                                                      \
            "add r7, r4\n"                                                      \
            "ldr r2, [r11, #68]\n"                                              \
            "add r6, r2\n"                                                      \
            "str r6, [r9, #12]\n"                                               \
            "b 1b\n"                                                            \
            "8:\n" /* or to the first row of the next group */                  \
            "ldrd r1, r4, [r11, #72]\n"                                         \
            "subs r1, #1\n"                                                     \
            "beq 9f\n"                                                          \
            "str r1, [r11, #72]\n"                                              \
            "add r5, r4\n"                                                      \
            "str r5, [r9, #8]\n"                                                \
            "ldr r1, [r11, #80]\n"                                              \
            "str r1, [r11, #56]\n"                                              \
            "ldr r0, [r11]\n"                                                   \
            "ldr r6, [r11, #96]\n"                                              \
            "adds r0, #" GROUP_Y_BYTES "\n"                                     \
            "adds r6, #" GROUP_Y_BYTES "\n"                                     \
            "str r0, [r11]\n"                                                   \
            "str r6, [r11, #96]\n"                                              \
            "str r6, [r9, #12]\n"                                               \
            "ldr r2, [r9]\n"                                                    \
            "b 0b\n"                                                            \
            "9:\n"                                                              \
            "pop {r7, r11}\n"                                                   \
            : "+r"(r0)                                                          \
            :                                                                   \
            : DOT_CLOBBERS);                                                    \
    }

#ifdef PRODUCTS
#define TWO_PIECES PRODUCTS("q0", "q1") PRODUCTS("q6", "q7")
#define THREE_PIECES PIECE_AT("0") PIECE_AT("16") PIECE_AT("32")
#define FOUR_PIECES THREE_PIECES PIECE_AT("48")

PAIRS(pairs_of_2,
      "vldrb.u8 q0, [r1]\n"
      "vldrb.u8 q1, [r3]\n"
      "vldrb.u8 q6, [r1, #16]\n"
      "vldrb.u8 q7, [r3, #16]\n" TWO_PIECES,
      TWO_PIECES,
      "vldrw.u32 q6, [r5, #-32]\n"
      "vldrw.u32 q7, [r5, #-16]\n")
PAIRS(pairs_of_3, THREE_PIECES, THREE_PIECES, "")
PAIRS(pairs_of_4, FOUR_PIECES, FOUR_PIECES, "")
#endif

static void keep(pillion_mve_pairs *s) {
    s->kept_signs = s->signs, s->kept_out_zp = s->out_zp;
    s->kept_constants = s->constants, s->kept_row_end = s->row_end;
    s->kept_x_step = s->x_step, s->kept_y_step = s->y_step, s->kept_one = s->one;
}

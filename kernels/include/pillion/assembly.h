/* SPDX-License-Identifier: Apache-2.0
 * Functions written in assembly, and checks of the numbers in their text: offsets of struct fields, and lengths of code. A wrong
 * number does not compile. */
#ifndef PILLION_ASSEMBLY_H
#define PILLION_ASSEMBLY_H

#include <stddef.h>
#include <stdint.h>

/* C99 lets a compiler refuse strings of more than 4095 characters; compilers with assembly accept longer ones. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* A function whose whole body is assembly, because it needs every register. It finds its parameters where the calling
 * convention puts them; the other attributes keep the compiler from changing that, or concluding anything from the body. */
#if defined(__clang__)
#define PILLION_NAKED __attribute__((naked, noinline, used))
#else
#define PILLION_NAKED __attribute__((naked, noipa, used))
#endif
#define PILLION_UNUSED __attribute__((unused))

/* C99 has no _Static_assert: an array of -1 elements does not compile, and this one is never defined. */
#define PILLION_ASSERT(holds, rule) extern const char rule[(holds) ? 1 : -1]

/* The text loads this field by its offset. */
#define PILLION_AT(type, field, bytes) \
    PILLION_ASSERT(offsetof(type, field) == (bytes), type##_##field##_is_where_the_assembly_loads_it_from)

/* The text loads these consecutive fields of four bytes, at most 16, from `bytes` on. */
#define PILLION_AT_1(type, bytes, field) PILLION_AT(type, field, bytes)
#define PILLION_AT_2(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_1(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_3(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_2(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_4(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_3(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_5(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_4(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_6(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_5(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_7(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_6(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_8(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_7(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_9(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_8(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_10(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_9(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_11(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_10(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_12(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_11(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_13(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_12(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_14(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_13(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_15(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_14(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_AT_16(type, bytes, field, ...) PILLION_AT(type, field, bytes); PILLION_AT_15(type, (bytes) + 4, __VA_ARGS__)
#define PILLION_SIXTEENTH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, sixteenth, ...) sixteenth
#define PILLION_FIELDS_AT(type, bytes, ...) \
    PILLION_SIXTEENTH(__VA_ARGS__, PILLION_AT_16, PILLION_AT_15, PILLION_AT_14, PILLION_AT_13, PILLION_AT_12, \
    PILLION_AT_11, PILLION_AT_10, PILLION_AT_9, PILLION_AT_8, PILLION_AT_7, PILLION_AT_6, PILLION_AT_5, \
    PILLION_AT_4, PILLION_AT_3, PILLION_AT_2, PILLION_AT_1, 0)(type, bytes, __VA_ARGS__)

/* The text loads this struct, or a table of the compiler has its layout, as a whole. */
#define PILLION_BYTES(type, bytes) PILLION_ASSERT(sizeof(type) == (bytes), type##_is_as_long_as_the_assembly_takes_it)

/* One struct begins with all of another, and goes on with `field`. */
#define PILLION_BEGINS_WITH(type, first, field) \
    PILLION_ASSERT(offsetof(type, field) == sizeof(first), type##_begins_with_##first)

/* A number in the text of assembly. */
#define PILLION_TEXT_OF(number) #number
#define PILLION_TEXT(number) PILLION_TEXT_OF(number)

/* `count` times the same code behind `label`, each of `bytes`: jumps into it are computed from these numbers. No assembler
 * moves .org backwards: the first one fails where a step is longer, the second one where it is shorter. */
#define PILLION_REPEAT(label, count, bytes, code)                            \
    ".rept " PILLION_TEXT(count) "\n" code ".endr\n"                         \
    "88:\n"                                                                  \
    ".org " label " + " PILLION_TEXT(count) " * " PILLION_TEXT(bytes) "\n"   \
    ".org 88b\n"

/* Where C code may jump to in the text, as the processor wants it: odd addresses are Thumb code. */
static inline uint32_t pillion_thumb(const uint8_t *place) {
    return (uint32_t)(uintptr_t)place | 1u;
}

#endif

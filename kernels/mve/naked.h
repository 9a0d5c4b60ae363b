/* SPDX-License-Identifier: Apache-2.0
 * Functions written in assembly as a whole, because they need every register. They find their parameters where the
 * calling convention puts them, and the compiler may not conclude anything from their bodies. */
#ifndef PILLION_MVE_NAKED_H
#define PILLION_MVE_NAKED_H

#if defined(__clang__)
#define NAKED __attribute__((naked, noinline, used))
#else
#define NAKED __attribute__((naked, noipa, used))
#endif
#define UNUSED __attribute__((unused))

#endif

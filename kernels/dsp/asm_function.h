/* SPDX-License-Identifier: Apache-2.0
 * Functions written in assembly because they need every register. */
#ifndef PILLION_DSP_ASM_FUNCTION_H
#define PILLION_DSP_ASM_FUNCTION_H

/* Their parameters are read where the calling convention puts them; `used` keeps the optimizer from changing that. */
#define ASM_FUNCTION __attribute__((naked, used))
#define UNUSED __attribute__((unused))

#endif

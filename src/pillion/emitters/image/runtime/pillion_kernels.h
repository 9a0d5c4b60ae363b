/* SPDX-License-Identifier: Apache-2.0
 * The kernels of this firmware. */
#ifndef PILLION_KERNEL_SET_H
#define PILLION_KERNEL_SET_H

#include "pillion_image.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const pillion_kernel_set pillion_kernels;

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#define MEAN_KERNEL pillion_mean_s8
#define MEAN_PARAMS pillion_mean_s8_params
#define MEAN_TYPE int8_t
#define MEAN_SATURATE(mean, zp) pillion_saturate(mean, zp, -128, 127)
#include "mean.h"

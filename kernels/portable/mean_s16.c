/* SPDX-License-Identifier: Apache-2.0 */
#define MEAN_KERNEL pillion_mean_s16
#define MEAN_PARAMS pillion_mean_s16_params
#define MEAN_TYPE int16_t
#define MEAN_SATURATE(mean, zp) (int16_t)(pillion_clamp(mean, -32768 - (zp), 32767 - (zp)) + (zp))
#include "mean.h"

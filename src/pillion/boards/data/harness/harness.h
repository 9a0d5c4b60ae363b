/* SPDX-License-Identifier: Apache-2.0
 * Which model main.c runs. */
#ifndef PILLION_HARNESS_H
#define PILLION_HARNESS_H

#include "model.h"

#define PILLION_MODEL pillion_model_@model@
#define PILLION_ARENA_BYTES @MODEL@_ARENA_BYTES
#ifdef @MODEL@_STATE_BYTES
#define PILLION_STATE_BYTES @MODEL@_STATE_BYTES
#else
#define PILLION_STATE_BYTES 0
#endif

/* Of a model that is handed its input row by row. */
#ifdef @MODEL@_ROW_BYTES
#define PILLION_ROW_BYTES @MODEL@_ROW_BYTES
#else
#define PILLION_ROW_BYTES 1
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The harness of C projects around a program image: the memory is as large as the board allows, the model is known when net.plm has been
 * read. */
#ifndef PILLION_IMAGE_MODEL_H
#define PILLION_IMAGE_MODEL_H

#include "pillion/model.h"

#define IMAGE_ARENA_BYTES 0x100000
#define IMAGE_STATE_BYTES 0x20000
#define IMAGE_ROW_BYTES 4096
#define IMAGE_BOUND_BYTES 0x10000
#define IMAGE_BLOCK_BYTES 0x2a0000

extern pillion_model pillion_model_image;

/* The harness's own, which starts when the image is open. */
#define main pillion_harness_main
int pillion_harness_main(int argc, char **argv);

#endif

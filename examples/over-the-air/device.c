/* A stand-in for the device: it opens the image that it is handed, and runs it. It is built once. */
#include "pillion_kernels.h"

#include <stdio.h>
#include <string.h>

static _Alignas(16) uint8_t block[64 * 1024], arena[32 * 1024], state[16];

int main(int count, char **words) {
    FILE *file = fopen(words[count - 1], "rb");
    uint32_t bytes = file ? (uint32_t)fread(block, 1, sizeof block, file) : 0;
    pillion_image model;
    pillion_image_status status = pillion_image_open(block, bytes, &pillion_kernels, &model);
    if (status != PILLION_IMAGE_OK || model.arena_bytes > sizeof arena || model.state_bytes > sizeof state) {
        printf("%s: refused (status %d), the old model stays\n", words[count - 1], (int)status);
        return 0;
    }
    memset(arena + model.inputs[0].offset, 0, model.inputs[0].bytes);
    pillion_image_reset(&model, state);
    pillion_image_run(&model, arena, state, NULL);
    float first;
    memcpy(&first, arena + model.outputs[0].offset, sizeof first);
    printf("%s: %s, %u bytes, answers %.4f\n", words[count - 1], model.name, (unsigned)bytes, (double)first);
    return 0;
}

#include <stdint.h>
#include <string.h>
#include "@model@.h"

arena| @section@static uint8_t arena[@MODEL@_ARENA_BYTES] __attribute__((aligned(16)));
several| @memories@
state| static uint8_t state[@MODEL@_STATE_BYTES] __attribute__((aligned(16)));

static uint32_t crc32(uint32_t crc, const uint8_t *bytes, uint32_t count) {
    crc = ~crc;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

/* Runs the model on zeros, and returns a checksum of its outputs. */
static uint32_t infer(void) {
    const pillion_model *model = &pillion_model_@model@;
several|     void *arena[] = {@addresses@};
state|     pillion_reset_state(model, state);
    for (uint32_t i = 0; i < model->input_count; i++) {
        if (model->inputs[i].offset != PILLION_NOWHERE) {
            memset(pillion_address(model, arena, &model->inputs[i]), 0, model->inputs[i].bytes);
        }
    }
whole|     pillion_run(model, arena, @state@, NULL);
rows|     static const uint8_t row[@row_bytes@] __attribute__((aligned(16)));
rows|     pillion_begin_rows(model, arena, @state@, NULL);
rows|     for (uint32_t i = 0; i < model->row_functions->rows; i++) {
rows|         model->row_functions->hand_over(arena, row, 1);
rows|     }
rows|     model->row_functions->end(arena);
    uint32_t crc = 0;
    for (uint32_t i = 0; i < model->output_count; i++) {
        crc = crc32(crc, pillion_address(model, arena, &model->outputs[i]), model->outputs[i].bytes);
    }
    return crc;
}

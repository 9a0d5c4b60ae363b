/* SPDX-License-Identifier: Apache-2.0
 * Opens the image of a file, runs it on the samples of another one, and writes the outputs; a state lasts from sample to sample.
 *
 *     driver net.plm input.bin output.bin        prints the status of pillion_image_open
 *     driver net.plm input.bin output.bin fuzz N SEED
 *         damages a copy of the image N times: prints how many were refused, and how many were accepted (those with inputs of less than 16 MB run); 1 if a run wrote beyond arena or state,
 *         2 if an image whose checksum was left alone was accepted */
#include "pillion_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64u
#define MOST_ROWS 3u

typedef struct {
    uint8_t *all, *at;
    uint32_t bytes;
} area;

static area make_area(uint32_t bytes) {
    area one;
    one.bytes = bytes;
    one.all = aligned_alloc(64, (bytes + 2 * GUARD + 63u) / 64u * 64u);
    one.at = one.all + GUARD;
    memset(one.all, 0xa5, bytes + 2 * GUARD);
    return one;
}

static int is_whole(const area *one) {
    for (uint32_t i = 0; i < GUARD; i++) {
        if (one->all[i] != 0xa5 || one->at[one->bytes + i] != 0xa5) {
            return 0;
        }
    }
    return 1;
}

static uint8_t *read_file(const char *path, uint32_t *bytes) {
    FILE *const file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *bytes = (uint32_t)ftell(file);
    rewind(file);
    uint8_t *const to = aligned_alloc(64, (*bytes + 64u) / 64u * 64u);
    *bytes = (uint32_t)fread(to, 1, *bytes, file);
    fclose(file);
    return to;
}

/* The NPU: the references of a model's segments, by their number. */
#ifdef SEGMENTS
#include "npu.h"
static void run_npu(const pillion_image *model, uint32_t segment, const void *const *inputs, void *const *outputs, void *workspace) {
    (void)model;
    (void)workspace;
    switch (segment) {
        SEGMENTS
    }
}
#else
#define run_npu NULL
#endif

/* Runs one sample; returns the input behind it. */
static const uint8_t *run(pillion_image *model, area *arena, area *state, const uint8_t *from) {
    const uint8_t *rows = NULL;
    for (uint32_t i = 0; i < model->input_count; i++) {
        const pillion_image_buffer *const one = &model->inputs[i];
        if (one->offset == UINT32_MAX) {
            rows = from;
        } else {
            memcpy(arena->at + one->offset, from, one->bytes);
        }
        from += one->bytes;
    }
    if (rows == NULL) {
        pillion_image_run(model, arena->at, state->at, NULL);
        return from;
    }
    pillion_image_begin(model, arena->at, state->at, NULL);
    for (uint32_t missing = model->rows; missing > 0;) {
        const uint32_t count = missing < MOST_ROWS ? missing : MOST_ROWS;
        missing = pillion_image_rows(model, rows, count);
        rows += count * model->row_bytes;
    }
    pillion_image_end(model);
    return from;
}

static uint32_t random_state;

static uint32_t next_random(uint32_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % below;
}

static uint32_t crc_of(const uint8_t *bytes, uint32_t count) {
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static const uint32_t odd_words[] = {0, 1, 2, 15, 16, 255, 256, 65535, 0x0fffffff, 0x10000000, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};

/* Changes a word of the header, the buffers or the schedule. A call's kernel, its params and its operands' sizes stay: no run-time can
 * tell them from those of another model. */
static void damage_structure(uint32_t *words, uint32_t at) {
    switch (next_random(4)) {
    case 0:
        words[at] ^= 1u << next_random(32);
        return;
    case 1:
        words[at] = odd_words[next_random(sizeof odd_words / sizeof odd_words[0])];
        return;
    case 2:
        words[at] += next_random(65) - 32;
        return;
    default:
        words[at] = words[next_random(words[2] / 4)];
    }
}

static int fuzz(const uint8_t *image, uint32_t size, const uint32_t *changed, uint32_t changed_count, uint32_t times) {
    uint32_t refused[16] = {0}, accepted = 0;
    for (uint32_t n = 0; n < times; n++) {
        uint8_t *const copy = aligned_alloc(64, (size + 63u) / 64u * 64u);
        uint32_t *const words = (uint32_t *)(void *)copy;
        memcpy(copy, image, size);
        const int is_sealed = n % 2 == 0;
        uint32_t length = size;
        if (is_sealed) {
            damage_structure(words, changed[next_random(changed_count)]);
            if (words[2] >= 16 && words[2] <= size) {
                words[3] = crc_of(copy + 16, words[2] - 16);
            }
        } else if (next_random(20) == 0) {
            length = next_random(size);
        } else {
            for (uint32_t flips = 1 + next_random(4); flips > 0; flips--) {
                copy[next_random(size)] ^= (uint8_t)(1u << next_random(8));
            }
        }
        pillion_image model;
        const int same = memcmp(copy, image, size) == 0 && length == size;
        const pillion_image_status status = pillion_image_open(copy, length, &pillion_kernels, &model);
        if (status != PILLION_IMAGE_OK) {
            refused[status]++;
            free(copy);
            continue;
        }
        if (!is_sealed && !same) {
            return 2;
        }
        area arena = make_area(model.arena_bytes), state = make_area(model.state_bytes);
        model.npu = run_npu;
        uint32_t bytes = 0;
        for (uint32_t i = 0; i < model.input_count; i++) {
            bytes += model.inputs[i].bytes;
        }
        uint8_t *const own = calloc(1, bytes + 1u + model.rows * model.row_bytes);
        if (bytes < 1u << 24 && (uint64_t)model.rows * model.row_bytes < 1u << 24) {
            area bound = make_area(pillion_image_bind(&model, NULL, 0, arena.at, state.at));
            pillion_image_bind(&model, bound.at, bound.bytes * (n / 2 % 2), arena.at, state.at);
            pillion_image_reset(&model, state.at);
            run(&model, &arena, &state, own);
            const int is_kept = is_whole(&bound);
            free(bound.all);
            if (!is_kept) {
                return 1;
            }
        }
        accepted++;
        const int whole = is_whole(&arena) && is_whole(&state);
        free(own);
        free(arena.all);
        free(state.all);
        free(copy);
        if (!whole) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < 16; i++) {
        printf("%u ", refused[i]);
    }
    printf("%u\n", accepted);
    return 0;
}

int main(int argc, char **argv) {
    uint32_t size = 0, bytes = 0, changed_bytes = 0;
    uint8_t *const block = read_file(argv[1], &size);
    uint8_t *const input = read_file(argv[2], &bytes);
    pillion_image model;
    if (argc > 5) {
        const uint8_t *const changed = read_file(argv[3], &changed_bytes);
        random_state = (uint32_t)strtoul(argv[6], NULL, 10) * 2654435761u | 1u;
        const int wrong = fuzz(block, size, (const uint32_t *)(const void *)changed, changed_bytes / 4, (uint32_t)strtoul(argv[5], NULL, 10));
        free((void *)(uintptr_t)changed);
        free(block);
        free(input);
        return wrong;
    }
    const pillion_image_status status = pillion_image_open(block, size, &pillion_kernels, &model);
    printf("%d\n", (int)status);
    if (status != PILLION_IMAGE_OK) {
        free(block);
        free(input);
        return 0;
    }
    area arena = make_area(model.arena_bytes), state = make_area(model.state_bytes);
    FILE *const output = fopen(argv[3], "wb");
    model.npu = run_npu;
    area bound = {NULL, NULL, 0};
    int whole = 1;
    /* Without and with resolved calls: the outputs are written twice, if there are some. */
    for (int pass = 0; pass < 2; pass++) {
        pillion_image_reset(&model, state.at);
        for (const uint8_t *from = input; from < input + bytes;) {
            from = run(&model, &arena, &state, from);
            for (uint32_t i = 0; i < model.output_count; i++) {
                fwrite(arena.at + model.outputs[i].offset, 1, model.outputs[i].bytes, output);
            }
        }
        if (pass == 0) {
            bound = make_area(pillion_image_bind(&model, NULL, 0, arena.at, state.at));
            pillion_image_bind(&model, bound.at, bound.bytes, arena.at, state.at);
        }
        whole = whole && is_whole(&arena) && is_whole(&state) && is_whole(&bound);
    }
    fclose(output);
    free(bound.all);
    free(arena.all);
    free(state.all);
    free(block);
    free(input);
    return whole ? 0 : 1;
}

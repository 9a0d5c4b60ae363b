/* SPDX-License-Identifier: Apache-2.0
 * Runs damaged copies of an image on a board, guarded: net.plm, input.bin (a sample), fuzz.bin (times, seed, the most ticks of a run, what is
 * damaged: the words of params or of all before the data; their places follow). Prints what became of the runs, in JSON. */
#include "board.h"
#include "pillion_guard.h"
#include "pillion_kernels.h"
#include "semihosting.h"

#include <string.h>

#define UNIT PILLION_GUARD_ALIGNMENT
#define CANARY 4096u
#define REGISTER(address) (*(volatile uint32_t *)(address))
#define VTOR REGISTER(0xe000ed08u)
#define SYST_CSR REGISTER(0xe000e010u)
#define SYST_RVR REGISTER(0xe000e014u)
#define SYST_CVR REGISTER(0xe000e018u)

#define HERE __attribute__((aligned(32), section(".pillion_arena")))

static HERE uint8_t image[IMAGE_BYTES], copy[IMAGE_BYTES];
static HERE uint32_t plan[PLAN_WORDS];
static HERE uint8_t input[INPUT_BYTES], expected[4096];
static HERE struct {
    uint8_t before[CANARY], arena[ARENA_BYTES], between[CANARY], state[STATE_BYTES], behind[CANARY], guard[4096], last[CANARY];
} memory;
static pillion_image model;
static uint32_t random_state, ticks;
static uint32_t vectors[256] __attribute__((aligned(1024)));

static const pillion_guard guard = {CODE_BEGIN, CODE_END, memory.guard, sizeof memory.guard};

static void tick(void) {
    ticks++;
    pillion_guard_stop();
}

static uint32_t next_random(uint32_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % below;
}

static uint32_t crc_of(const uint8_t *bytes, uint32_t count) {
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256 && table[255] == 0; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ (0xedb88320u & (0u - (table[i] & 1u)));
        }
    }
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xffu];
    }
    return ~crc;
}

static void damage(uint32_t *words, uint32_t at) {
    static const uint32_t odd[] = {0, 1, 2, 15, 16, 255, 256, 65535, 0x0fffffff, 0x10000000, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
    switch (next_random(4)) {
    case 0:
        words[at] ^= 1u << next_random(32);
        return;
    case 1:
        words[at] = odd[next_random(sizeof odd / sizeof odd[0])];
        return;
    case 2:
        words[at] += next_random(65) - 32;
        return;
    default:
        words[at] *= 1 + next_random(1000);
    }
}

static uint32_t read(const char *path, void *to, uint32_t most) {
    const int32_t file = semihost_open(path, SEMIHOST_READ);
    const int32_t length = semihost_length(file);
    if (length < 0 || (uint32_t)length > most || semihost_read(file, to, (uint32_t)length) != 0) {
        semihost_print("a file is missing or too large\n");
        semihost_exit(2);
    }
    semihost_close(file);
    return (uint32_t)length;
}

/* Whether memory behind a region is as it was. Of an access that begins in a region and ends behind it, the emulator checks the beginning alone,
 * a core checks both: up to three bytes may have changed here. */
static int is(const uint8_t *bytes, uint32_t count, uint8_t value) {
    while (count > 3 && bytes[count - 1] == value) {
        count--;
    }
    return count <= 3;
}

static pillion_image_status run(int guarded) {
    memset(memory.arena, 0, sizeof memory.arena);
    pillion_image_status status = guarded ? pillion_guard_reset(&guard, &model, memory.state) : pillion_image_reset(&model, memory.state);
    const uint8_t *from = input, *rows = NULL;
    for (uint32_t i = 0; i < model.input_count; i++) {
        const pillion_image_buffer *const one = &model.inputs[i];
        if (one->offset == UINT32_MAX) {
            rows = from;
        } else if (one->bytes <= sizeof input) {
            memcpy(memory.arena + one->offset, from, one->bytes);
        }
        from += one->bytes;
    }
    if (status != PILLION_IMAGE_OK || rows == NULL) {
        return status                ? status
               : guarded ? pillion_guard_run(&guard, &model, memory.arena, memory.state)
                         : pillion_image_run(&model, memory.arena, memory.state, NULL);
    }
    status = guarded ? pillion_guard_begin(&guard, &model, memory.arena, memory.state) : pillion_image_begin(&model, memory.arena, memory.state, NULL);
    uint32_t missing = model.rows;
    while (missing > 0 && status == PILLION_IMAGE_OK) {
        const uint32_t count = missing < 3 ? missing : 3;
        if (guarded) {
            status = pillion_guard_rows(&guard, &model, memory.arena, memory.state, rows, count, &missing);
        } else {
            missing = pillion_image_rows(&model, rows, count);
        }
        rows += count * model.row_bytes;
        if ((uintptr_t)(rows - input) > sizeof input) {
            return PILLION_IMAGE_STOPPED;
        }
    }
    if (status == PILLION_IMAGE_OK && guarded) {
        status = pillion_guard_end(&guard, &model, memory.arena, memory.state, &missing);
    } else if (!guarded) {
        pillion_image_end(&model);
    }
    return status;
}

static void report(const char *name, uint32_t value) {
    char text[12] = {0};
    uint32_t at = sizeof text - 1;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    semihost_print("\"");
    semihost_print(name);
    semihost_print("\": ");
    semihost_print(text + at);
}

int main(void) {
    enum { TIMES, SEED, TICKS, COUNT, PLACES };
    const uint32_t size = read("net.plm", image, sizeof image);
    read("input.bin", input, sizeof input);
    read("fuzz.bin", plan, sizeof plan);
    memcpy(vectors, (const void *)(uintptr_t)VTOR, 64);
    for (uint32_t i = 4; i < 12; i++) {
        vectors[i] = i < 7 || i == 11 ? (uint32_t)(uintptr_t)pillion_guard_handler : vectors[i];
    }
    vectors[15] = (uint32_t)(uintptr_t)tick;
    VTOR = (uint32_t)(uintptr_t)vectors;
    random_state = plan[SEED];
    memset(&memory, 0x5a, sizeof memory);

    memcpy(copy, image, size);
    if (pillion_image_open(copy, size, &pillion_kernels, &model) != PILLION_IMAGE_OK || model.arena_bytes > sizeof memory.arena ||
        model.state_bytes > sizeof memory.state || model.outputs[0].bytes > sizeof expected) {
        semihost_print("the image was refused\n");
        return 2;
    }
    const uint32_t bytes = model.outputs[0].bytes;
    pillion_clock_start();
    run(0);
    uint64_t begin = pillion_clock_now();
    run(0);
    const uint64_t plain = pillion_clock_now() - begin;
    memcpy(expected, memory.arena + model.outputs[0].offset, bytes);
    begin = pillion_clock_now();
    const pillion_image_status first = run(1);
    const uint64_t guarded = pillion_clock_now() - begin;
    const int is_equal = first == PILLION_IMAGE_OK && memcmp(expected, memory.arena + model.outputs[0].offset, bytes) == 0;

    uint32_t refused = 0, stopped = 0, right = 0, other = 0, broken = 0;
    for (uint32_t n = 0; n < plan[TIMES]; n++) {
        memcpy(copy, image, size);
        uint32_t *const words = (uint32_t *)(void *)copy;
        for (uint32_t times = 1 + next_random(3); times > 0; times--) {
            damage(words, plan[PLACES + next_random(plan[COUNT])]);
        }
        if (words[2] >= 16 && words[2] <= size) {
            words[3] = crc_of(copy + 16, words[2] - 16);
        }
        if (pillion_image_open(copy, size, &pillion_kernels, &model) != PILLION_IMAGE_OK || model.arena_bytes > sizeof memory.arena ||
            model.state_bytes > sizeof memory.state) {
            refused++;
            continue;
        }
        const uint32_t sum = crc_of(copy, size);
        SYST_RVR = plan[TICKS];
        SYST_CVR = 0;
        SYST_CSR = 7;
        const pillion_image_status status = run(1);
        SYST_CSR = 0;
        const uint32_t unused_arena = (model.arena_bytes + UNIT - 1) / UNIT * UNIT, unused_state = (model.state_bytes + UNIT - 1) / UNIT * UNIT;
        const int is_whole = is(memory.before, CANARY, 0x5a) && is(memory.between, CANARY, 0x5a) && is(memory.behind, CANARY, 0x5a) &&
                             is(memory.last, CANARY, 0x5a) && is(memory.arena + unused_arena, sizeof memory.arena - unused_arena, 0) &&
                             is(memory.state + unused_state, sizeof memory.state - unused_state, 0x5a) && sum == crc_of(copy, size);
        broken += !is_whole;
        if (status == PILLION_IMAGE_STOPPED) {
            stopped++;
        } else if (status == PILLION_IMAGE_OK && model.output_count > 0 && model.outputs[0].bytes == bytes &&
                   memcmp(expected, memory.arena + model.outputs[0].offset, bytes) == 0) {
            right++;
        } else {
            other++;
        }
    }
    semihost_print("{");
    report("equal", (uint32_t)is_equal);
    semihost_print(", "), report("plain", (uint32_t)plain), semihost_print(", "), report("guarded", (uint32_t)guarded);
    semihost_print(", "), report("refused", refused), semihost_print(", "), report("stopped", stopped);
    semihost_print(", "), report("late", ticks);
    semihost_print(", "), report("right", right), semihost_print(", "), report("other", other), semihost_print(", "), report("broken", broken);
    semihost_print("}\n");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * Two tasks, each with a model, in one arena with a mutex. A third one interrupts them at every tick, uses the vector registers, and counts; after
 * INTERRUPTIONS in the middle of a run it prints how many runs there were, and how many were wrong. */
#include "FreeRTOS.h"
#include "semihosting.h"
#include "semphr.h"
#include "spotter.h"
#include "task.h"
#include "tracker.h"

#include <string.h>

#define VTOR (*(volatile uint32_t *)0xe000ed08u)
#define EXCEPTIONS 16
#define ARENA_BYTES (SPOTTER_ARENA_BYTES > TRACKER_ARENA_BYTES ? SPOTTER_ARENA_BYTES : TRACKER_ARENA_BYTES)

#if __ARM_ARCH >= 8
void SVC_Handler(void);
void PendSV_Handler(void);
void SysTick_Handler(void);
#else
void vPortSVCHandler(void);
void xPortPendSVHandler(void);
void xPortSysTickHandler(void);
#define SVC_Handler vPortSVCHandler
#define PendSV_Handler xPortPendSVHandler
#define SysTick_Handler xPortSysTickHandler
#endif

typedef struct {
    const pillion_model *model;
    uint32_t expected;
    volatile uint32_t runs, wrong;
} job;

static uint8_t arena[ARENA_BYTES] __attribute__((aligned(16)));
static uint8_t state[TRACKER_STATE_BYTES] __attribute__((aligned(16)));
static uint32_t vectors[EXCEPTIONS] __attribute__((aligned(512)));
static SemaphoreHandle_t arena_is_free;
static volatile int is_running;
static job jobs[] = {{.model = &pillion_model_spotter}, {.model = &pillion_model_tracker}};

static uint32_t crc32(uint32_t crc, const uint8_t *bytes, uint32_t count) {
    crc = ~crc;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static uint32_t infer(const pillion_model *model) {
    memset(arena, 0x5a, sizeof arena); /* what the other model left */
    for (uint32_t i = 0; i < model->input_count; i++) {
        memset(pillion_address(model, arena, &model->inputs[i]), 0, model->inputs[i].bytes);
    }
    pillion_reset_state(model, state);
    pillion_run(model, arena, state, NULL);
    uint32_t crc = 0;
    for (uint32_t i = 0; i < model->output_count; i++) {
        crc = crc32(crc, pillion_address(model, arena, &model->outputs[i]), model->outputs[i].bytes);
    }
    return crc;
}

static void run_for_ever(void *argument) {
    job *const own = argument;
    for (;;) {
        xSemaphoreTake(arena_is_free, portMAX_DELAY);
        is_running = 1;
        own->wrong += infer(own->model) != own->expected;
        own->runs++;
        is_running = 0;
        xSemaphoreGive(arena_is_free);
        taskYIELD();
    }
}

static void print_number(const char *name, uint32_t number) {
    char text[] = "00000000\n";
    for (int i = 7; i >= 0; i--, number >>= 4) {
        text[i] = "0123456789abcdef"[number & 15u];
    }
    semihost_print(name);
    semihost_print(" ");
    semihost_print(text);
}

static void interrupt(void *argument) {
    volatile float *const scribbled = argument;
    uint32_t interruptions = 0;
    while (interruptions < INTERRUPTIONS) {
        vTaskDelay(1);
        for (int i = 0; i < 8; i++) {
            scribbled[i] = scribbled[i] * 0.5f + 1.0f;
        }
#if defined(__ARM_FEATURE_MVE)
        __asm volatile("vmov.i8 q0, #165\n vmov.i8 q3, #90\n vmov.i8 q7, #60\n" ::: "q0", "q3", "q7");
#endif
        interruptions += (uint32_t)is_running;
    }
    for (uint32_t i = 0; i < 2; i++) {
        print_number(jobs[i].model->name, jobs[i].expected);
        print_number("runs", jobs[i].runs);
        print_number("wrong", jobs[i].wrong);
    }
    semihost_exit(0);
}

void vApplicationStackOverflowHook(TaskHandle_t task, char *name) {
    (void)task;
    semihost_print("stack overflow in ");
    semihost_print(name);
    semihost_exit(1);
}

int main(void) {
    static float scribbled[8];
    memcpy(vectors, (const void *)VTOR, sizeof vectors);
    vectors[11] = (uint32_t)(uintptr_t)SVC_Handler;
    vectors[14] = (uint32_t)(uintptr_t)PendSV_Handler;
    vectors[15] = (uint32_t)(uintptr_t)SysTick_Handler;
    VTOR = (uint32_t)(uintptr_t)vectors;
    arena_is_free = xSemaphoreCreateMutex();
    for (uint32_t i = 0; i < 2; i++) {
        jobs[i].expected = infer(jobs[i].model);
        xTaskCreate(run_for_ever, jobs[i].model->name, 1024, &jobs[i], 1, NULL);
    }
    xTaskCreate(interrupt, "ticks", 512, scribbled, 2, NULL);
    vTaskStartScheduler();
    return 1;
}

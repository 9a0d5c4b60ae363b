/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion_guard.h"

#include <stddef.h>
#include <string.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SHCSR REGISTER(0xe000ed24u)
#define CFSR REGISTER(0xe000ed28u)
#define MPU_TYPE REGISTER(0xe000ed90u)
#define MPU_CTRL REGISTER(0xe000ed94u)
#define MPU_RNR REGISTER(0xe000ed98u)
#define MPU_RBAR REGISTER(0xe000ed9cu)
#define MPU_RLAR REGISTER(0xe000eda0u)
#define MPU_MAIR0 REGISTER(0xe000edc0u)

#define SHCSR_SVCALLPENDED (1u << 15)
#define CTRL_ENABLE_WITH_DEFAULT_MAP 5u /* the firmware itself sees all of memory */
#define NORMAL_WRITE_BACK 0xffu
#define READ_ONLY 6u  /* RBAR: for all, with */
#define WRITABLE 2u   /* or without being read-only; */
#define NO_CODE 1u    /* not to be executed */
#define MOST_REGIONS 16u
#define UNIT PILLION_GUARD_ALIGNMENT

typedef enum { RESET, RUN, BEGIN, ROWS, END } request;

/* The beginning of the guard's memory, which kernels can write: after a run nothing in it is trusted. */
typedef struct {
    pillion_image model;
    void *arena, *state;
    const void *rows;
    uint32_t count, missing, is_done;
    request wanted;
    pillion_image_status status;
} inside;

typedef struct {
    uintptr_t begin, end;
    uint32_t access;
} region;

typedef struct {
    uint32_t control, attributes, count;
    uint32_t bases[MOST_REGIONS], limits[MOST_REGIONS];
} mpu_settings;

/* The main stack of the firmware while kernels run, for the handler; 0 otherwise. */
static volatile uint32_t waiting_stack __attribute__((used));

static void settle(void) {
    __asm volatile("dsb\n isb" : : : "memory");
}

static void keep_settings(mpu_settings *to) {
    const uint32_t regions = MPU_TYPE >> 8 & 0xffu;
    to->control = MPU_CTRL;
    to->attributes = MPU_MAIR0;
    to->count = regions < MOST_REGIONS ? regions : MOST_REGIONS;
    for (uint32_t i = 0; i < to->count; i++) {
        MPU_RNR = i;
        to->bases[i] = MPU_RBAR;
        to->limits[i] = MPU_RLAR;
    }
}

static void put_back(const mpu_settings *from) {
    MPU_CTRL = 0;
    MPU_MAIR0 = from->attributes;
    for (uint32_t i = 0; i < from->count; i++) {
        MPU_RNR = i;
        MPU_RBAR = from->bases[i];
        MPU_RLAR = from->limits[i];
    }
    MPU_CTRL = from->control;
    settle();
}

static void protect(const region *regions, uint32_t count, uint32_t all) {
    MPU_CTRL = 0;
    MPU_MAIR0 = NORMAL_WRITE_BACK;
    for (uint32_t i = 0; i < all; i++) {
        MPU_RNR = i;
        MPU_RLAR = 0;
        if (i < count) {
            MPU_RBAR = regions[i].begin | regions[i].access;
            MPU_RLAR = (regions[i].end - UNIT) | 1u;
        }
    }
    MPU_CTRL = CTRL_ENABLE_WITH_DEFAULT_MAP;
    settle();
}

/* Adds a region. Read-only regions are rounded to whole units, and may lie in another one. Returns 0 if that is impossible. */
static int add(region *regions, uint32_t *count, const void *begin, uint32_t bytes, uint32_t access) {
    const uintptr_t from = (uintptr_t)begin / UNIT * UNIT, to = ((uintptr_t)begin + bytes + UNIT - 1) / UNIT * UNIT;
    const int is_read_only = (access & READ_ONLY) == READ_ONLY;
    if (bytes == 0) {
        return 1;
    }
    if (to <= from || (!is_read_only && (uintptr_t)begin % UNIT != 0)) {
        return 0;
    }
    for (uint32_t i = 0; i < *count; i++) {
        if (from < regions[i].end && regions[i].begin < to) {
            const int is_within = regions[i].begin <= from && to <= regions[i].end;
            return is_within && is_read_only && (regions[i].access & READ_ONLY) == READ_ONLY;
        }
    }
    regions[(*count)++] = (region){from, to, access};
    return 1;
}

/* Runs unprivileged; only assembly calls it. */
__attribute__((used)) static void run_inside(inside *in) {
    switch (in->wanted) {
    case RESET:
        in->status = pillion_image_reset(&in->model, in->state);
        break;
    case RUN:
        in->status = pillion_image_run(&in->model, in->arena, in->state, NULL);
        break;
    case BEGIN:
        in->status = pillion_image_begin(&in->model, in->arena, in->state, NULL);
        break;
    case ROWS:
        in->missing = pillion_image_rows(&in->model, in->rows, in->count);
        break;
    default:
        in->missing = pillion_image_end(&in->model);
        break;
    }
    in->is_done = 1;
}

#if defined(__ARM_FP)
#define SAVE_FLOATS "vpush {s16-s31}\n"
#define LOAD_FLOATS "vpop {s16-s31}\n"
/* No lazily saved registers of the kernels are left to be written: FPCCR.LSPACT. */
#define FORGET_FLOATS "ldr r1, =0xe000ef34\n ldr r0, [r1]\n bic r0, r0, #1\n str r0, [r1]\n"
#else
#define SAVE_FLOATS ""
#define LOAD_FLOATS ""
#define FORGET_FLOATS ""
#endif

/* Calls run_inside(in) unprivileged on another stack. Returns 0, or not 0 after a fault. */
__attribute__((naked, noinline)) static uint32_t enter(inside *in, void *stack_top, void *stack_limit) {
    (void)in, (void)stack_top, (void)stack_limit;
    __asm volatile("push {r3-r11, lr}\n" SAVE_FLOATS
                   "ldr r3, =waiting_stack\n"
                   "mov r12, sp\n"
                   "str r12, [r3]\n"
                   "msr psp, r1\n"
                   "msr psplim, r2\n"
                   "mrs r3, control\n"
                   "orr r3, r3, #3\n"
                   "msr control, r3\n"
                   "isb\n"
                   "ldr r3, =run_inside\n"
                   "blx r3\n"
                   "svc 0\n"
                   ".ltorg\n");
}

/* Back from a guarded run: the frame of the exception is given up, and another on the main stack leads to the end of enter(). */
__attribute__((naked)) void pillion_guard_handler(void) {
    __asm volatile("ldr r3, =waiting_stack\n"
                   "ldr r2, [r3]\n"
                   "cmp r2, #0\n"
                   "beq 1f\n"
                   "and r0, lr, #12\n" /* EXC_RETURN: from thread mode, and from its process stack */
                   "cmp r0, #12\n"
                   "bne 1f\n"
                   "cpsid i\n"
                   "mov r1, #0\n"
                   "str r1, [r3]\n" /* from here on pillion_guard_stop() does nothing; a pending stop is dropped */
                   "ldr r3, =0xe000ed24\n"
                   "ldr r0, [r3]\n"
                   "bic r0, r0, #0x8000\n" /* SHCSR.SVCALLPENDED */
                   "str r0, [r3]\n"
                   "dsb\n"
                   "cpsie i\n"
                   "msr psplim, r1\n"
                   "mrs r3, control\n"
                   "bic r3, r3, #1\n"
                   "msr control, r3\n"
                   "isb\n"
                   "mrs r0, ipsr\n"
                   "subs r0, r0, #11\n" /* SVCall */
                   "sub r2, r2, #32\n"
                   "str r0, [r2]\n"
                   "adr r0, 2f\n"
                   "str r0, [r2, #24]\n"
                   "mov r0, #0x1000000\n"
                   "str r0, [r2, #28]\n"
                   "msr msp, r2\n" FORGET_FLOATS
                   "orr lr, lr, #16\n" /* a frame without floats, */
                   "bic lr, lr, #4\n"  /* on the main stack */
                   "bx lr\n"
                   "1: ldr r0, =pillion_guard_other\n"
                   "bx r0\n"
                   ".balign 4\n"
                   "2: " LOAD_FLOATS "pop {r3-r11, pc}\n"
                   ".ltorg\n");
}

__attribute__((weak)) void pillion_guard_other(void) {
    for (;;) {
    }
}

void pillion_guard_stop(void) {
    if (waiting_stack != 0) {
        SHCSR |= SHCSR_SVCALLPENDED;
    }
}

static pillion_image_status guarded(const pillion_guard *guard, const pillion_image *model, const inside *next) {
    inside *const in = guard->memory;
    const uint8_t *const code = guard->code;
    uint8_t *const memory_end = (uint8_t *)guard->memory + guard->bytes;
    uint8_t *const stack_limit = (uint8_t *)guard->memory + (sizeof *in + 7u) / 8u * 8u;
    region regions[6];
    uint32_t count = 0;
    mpu_settings before;
    if (model->segments > 0) {
        return PILLION_IMAGE_NPU;
    }
    const int fits = add(regions, &count, code, (uint32_t)((const uint8_t *)guard->code_end - code), READ_ONLY) &&
                     add(regions, &count, model->block, model->block[2], READ_ONLY | NO_CODE) &&
                     add(regions, &count, guard->memory, guard->bytes, WRITABLE | NO_CODE) &&
                     add(regions, &count, next->arena, next->arena == NULL ? 0 : model->arena_bytes, WRITABLE | NO_CODE) &&
                     add(regions, &count, next->state, model->state_bytes, WRITABLE | NO_CODE) &&
                     add(regions, &count, next->rows, next->count * model->row_bytes, READ_ONLY | NO_CODE);
    keep_settings(&before);
    if (!fits || guard->bytes % UNIT != 0 || guard->bytes < sizeof *in + UNIT || before.count < count || waiting_stack != 0) {
        return PILLION_IMAGE_MISALIGNED;
    }
    if (next->wanted == ROWS || next->wanted == END) {
        in->wanted = next->wanted;
        in->rows = next->rows;
        in->count = next->count;
    } else {
        *in = *next;
        in->model = *model;
        in->model.bound = NULL; /* calls with addresses in memory that kernels do not see */
    }
    in->is_done = 0;
    protect(regions, count, before.count);
    const uint32_t fault = enter(in, memory_end, stack_limit);
    put_back(&before);
    if (fault) {
        CFSR = CFSR;
    }
    return fault || in->is_done != 1 || (uint32_t)in->status > PILLION_IMAGE_STOPPED ? PILLION_IMAGE_STOPPED : in->status;
}

pillion_image_status pillion_guard_reset(const pillion_guard *guard, const pillion_image *model, void *state) {
    return guarded(guard, model, &(inside){.state = state, .wanted = RESET});
}

pillion_image_status pillion_guard_run(const pillion_guard *guard, const pillion_image *model, void *arena, void *state) {
    return guarded(guard, model, &(inside){.arena = arena, .state = state, .wanted = RUN});
}

pillion_image_status pillion_guard_begin(const pillion_guard *guard, const pillion_image *model, void *arena, void *state) {
    return guarded(guard, model, &(inside){.arena = arena, .state = state, .wanted = BEGIN});
}

pillion_image_status pillion_guard_rows(const pillion_guard *guard, const pillion_image *model, void *arena, void *state, const void *rows,
                                        uint32_t count, uint32_t *missing) {
    const inside next = {.arena = arena, .state = state, .rows = rows, .count = count, .wanted = ROWS};
    const pillion_image_status status = guarded(guard, model, &next);
    *missing = ((const inside *)guard->memory)->missing;
    return status;
}

pillion_image_status pillion_guard_end(const pillion_guard *guard, const pillion_image *model, void *arena, void *state, uint32_t *missing) {
    const pillion_image_status status = guarded(guard, model, &(inside){.arena = arena, .state = state, .wanted = END});
    *missing = ((const inside *)guard->memory)->missing;
    return status;
}

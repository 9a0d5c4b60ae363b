/* SPDX-License-Identifier: Apache-2.0
 * FreeRTOS for the test of two models in tasks: ticks so often that every inference is interrupted. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include "semihosting.h"

#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 1
#define configCPU_CLOCK_HZ 25000000
#define configTICK_RATE_HZ 10000
#define configMAX_PRIORITIES 4
#define configMINIMAL_STACK_SIZE 256
#define configTOTAL_HEAP_SIZE 24576
#define configMAX_TASK_NAME_LEN 8
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 0
#define configUSE_MUTEXES 1
#define configUSE_TIMERS 0
#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configCHECK_FOR_STACK_OVERFLOW 2
#define configENABLE_FPU 1
#define configENABLE_MVE CONFIG_MVE
#define configENABLE_MPU 0
#define configENABLE_TRUSTZONE 0
#define configRUN_FREERTOS_SECURE_ONLY 1
#define configKERNEL_INTERRUPT_PRIORITY 255
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 32
#define configCHECK_HANDLER_INSTALLATION 0
#define configASSERT(holds)                        \
    if (!(holds)) {                                \
        semihost_print("failed: " #holds "\n");    \
        semihost_exit(1);                          \
    }

#define INCLUDE_vTaskDelay 1
#define INCLUDE_vTaskSuspend 1

#endif

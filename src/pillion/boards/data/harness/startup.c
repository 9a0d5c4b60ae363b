/* SPDX-License-Identifier: Apache-2.0
 * From reset to main, and a report for every exception that nobody wanted. For Armv7-M and later. */
#include "board.h"
#include "semihosting.h"

#include <stdbool.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SHCSR REGISTER(0xe000ed24u)
#define CFSR REGISTER(0xe000ed28u)
#define HFSR REGISTER(0xe000ed2cu)
#define MMFAR REGISTER(0xe000ed34u)
#define BFAR REGISTER(0xe000ed38u)
#define SHCSR_NAMED_FAULTS (0xfu << 16) /* memory, bus, usage, secure: each with its own vector */
#define CFSR_MMARVALID (1u << 7)
#define CFSR_BFARVALID (1u << 15)

#define MOST_ARGUMENTS 8
#define MOST_ARGUMENT_BYTES 256

typedef union {
    void (*handler)(void);
    const void *stack;
} vector;

/* What the processor pushes on entry to an exception. */
typedef struct {
    uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
} exception_frame;

/* From the linker script. */
extern uint32_t pillion_stack_bottom[], pillion_stack_top[];
extern uint32_t pillion_data_load[], pillion_data_start[], pillion_data_end[];
extern uint32_t pillion_bss_start[], pillion_bss_end[];

int main(int argc, char **argv);
void pillion_reset(void);
void pillion_start(void) __attribute__((noreturn));
void pillion_fault(void);
void pillion_report_fault(const exception_frame *frame, uint32_t exception) __attribute__((noreturn));
void pillion_clock_wrapped(void);

/* The handler of a stack overflow cannot use the stack. */
uint32_t pillion_fault_stack[256] __attribute__((aligned(8)));

__attribute__((section(".vectors"), used)) static const vector vectors[16 + 240] = {
    [0] = {.stack = pillion_stack_top},
    [1] = {.handler = pillion_reset},
    [2 ... 14] = {.handler = pillion_fault},
    [15] = {.handler = pillion_clock_wrapped},
    [16 ... 255] = {.handler = pillion_fault},
};

#if __ARM_ARCH >= 8
#define SET_STACK_LIMIT(symbol) "ldr r0, =" symbol "\n msr msplim, r0\n"
#else
#define SET_STACK_LIMIT(symbol) ""
#endif

/* In assembly because C may use FPU or MVE registers anywhere, and they are off until CPACR is set. */
__attribute__((naked)) void pillion_reset(void) {
    __asm volatile(SET_STACK_LIMIT("pillion_stack_bottom") /**/
                   "ldr r0, =0xe000ed88\n"                 /* CPACR: full access to coprocessors 10 and 11 */
                   "ldr r1, [r0]\n"
                   "orr r1, r1, #0xf00000\n"
                   "str r1, [r0]\n"
                   "dsb\n"
                   "isb\n"
                   "b pillion_start\n"
                   ".ltorg\n");
}

static int split(char *text, char **words) {
    int count = 0;
    bool inside = false;
    for (; *text != '\0'; text++) {
        if (*text == ' ') {
            *text = '\0';
            inside = false;
        } else if (!inside && count < MOST_ARGUMENTS) {
            words[count++] = text;
            inside = true;
        }
    }
    return count;
}

void pillion_start(void) {
    static char arguments[MOST_ARGUMENT_BYTES];
    static char *argv[MOST_ARGUMENTS + 1];
    const volatile uint32_t *from = pillion_data_load;
    for (volatile uint32_t *to = pillion_data_start; to < pillion_data_end; to++) {
        *to = *from++;
    }
    for (volatile uint32_t *to = pillion_bss_start; to < pillion_bss_end; to++) {
        *to = 0;
    }
    pillion_stack_bottom[0] = PILLION_STACK_PAINT;
    SHCSR |= SHCSR_NAMED_FAULTS;
    semihost_arguments(arguments, sizeof arguments);
    semihost_exit(main(split(arguments, argv), argv));
}

/* The frame lies where the stack pointer was on entry; from here on the fault has a stack of its own. */
__attribute__((naked)) void pillion_fault(void) {
    __asm volatile("mrs r2, msp\n"
                   "mrs r1, ipsr\n" /**/
                   SET_STACK_LIMIT("pillion_fault_stack") /**/
                   "ldr r0, =pillion_fault_stack + 1024\n"
                   "msr msp, r0\n"
                   "mov r0, r2\n"
                   "b pillion_report_fault\n"
                   ".ltorg\n");
}

static void print_hex(const char *name, uint32_t value) {
    static const char digits[] = "0123456789abcdef";
    char text[] = "0x00000000\"";
    for (int i = 0; i < 8; i++) {
        text[2 + i] = digits[(value >> (28 - 4 * i)) & 15u];
    }
    semihost_print(", \"");
    semihost_print(name);
    semihost_print("\": \"");
    semihost_print(text);
}

static const char *name_of(uint32_t exception) {
    static const char *const names[16] = {
        [2] = "NMI",           [3] = "HardFault", [4] = "MemManage",     [5] = "BusFault", [6] = "UsageFault",
        [7] = "SecureFault",   [11] = "SVCall",   [12] = "DebugMonitor", [14] = "PendSV",
    };
    if (exception < 16) {
        return names[exception] != 0 ? names[exception] : "reserved exception";
    }
    return "interrupt";
}

/* After an overflow there may be no frame. Cores without a stack limit notice an overflow late, by what it
 * led to: below the stack of an MPS2 nothing can be kept, so return addresses come back as zeros. */
void pillion_report_fault(const exception_frame *frame, uint32_t exception) {
    const bool on_stack = (uintptr_t)frame >= (uintptr_t)pillion_stack_bottom &&
                          (uintptr_t)(frame + 1) <= (uintptr_t)pillion_stack_top;
    const bool overflown = !on_stack || pillion_stack_bottom[0] != PILLION_STACK_PAINT;
    const uint32_t status = CFSR;
    semihost_print("{\"fault\": \"");
    semihost_print(name_of(exception));
    semihost_print(overflown ? "\", \"stack\": \"overflown\"" : "\"");
    print_hex("exception", exception);
    if (on_stack) {
        print_hex("pc", frame->pc);
        print_hex("lr", frame->lr);
    }
    print_hex("cfsr", status);
    print_hex("hfsr", HFSR);
    if ((status & (CFSR_MMARVALID | CFSR_BFARVALID)) != 0) {
        print_hex("address", (status & CFSR_BFARVALID) != 0 ? BFAR : MMFAR);
    }
    semihost_print("}\n");
    semihost_exit(1);
}

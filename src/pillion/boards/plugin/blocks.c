/* SPDX-License-Identifier: Apache-2.0
 * A plugin of QEMU: how often each block of instructions ran between two calls of a function, and what it touched of memory.
 *
 *     -plugin blocks.so,out=FILE,mark=ADDRESS,code=FROM-TO[,code=FROM-TO]...[,range=FROM-TO]...
 *
 * Blocks that begin within one of the stretches of code are counted. At each block that begins at `mark`, and at the end, the file gets what ran since
 * the last time, and a line "mark":
 *
 *     block ADDRESS INSTRUCTIONS RUNS LEFT     LEFT: runs after which another block came than the one behind it
 *     range BYTES LINES                        of each range: bytes read and written, and different lines of 32 bytes
 *
 * The emulator's functions are declared here: their header is not part of every package, and these have been the same since the
 * first version of the interface. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define LINE_SHIFT 5
#define MOST_RANGES 16

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

/* Some versions mistake reads for writes where one kind alone is asked for. */
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*call)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*call)(unsigned int, void *), int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, void (*call)(unsigned int, uint32_t, uint64_t, void *),
                                      int flags, int reads_or_writes, void *data);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv);

EXPORT int qemu_plugin_version = PILLION_PLUGIN_VERSION;

/* Each once, although the emulator may translate one several times. */
typedef struct block {
    uint64_t begin, end, instructions, runs, left;
    struct block *next;
} block;

typedef struct {
    uint64_t from, to, bytes, lines;
    uint8_t *touched;
} range;

static struct {
    uint64_t mark;
    FILE *out;
    block *blocks, *last;
    range code[MOST_RANGES], ranges[MOST_RANGES];
    uint32_t code_count, range_count;
} all;

static bool holds(const range *r, uint64_t address) {
    return address >= r->from && address < r->to;
}

static size_t line_count(const range *r) {
    return (size_t)((r->to - r->from) >> LINE_SHIFT) + 1;
}

static void report(void) {
    for (block *b = all.blocks; b != NULL; b = b->next) {
        if (b->runs != 0) {
            fprintf(all.out, "block %llu %llu %llu %llu\n", (unsigned long long)b->begin, (unsigned long long)b->instructions,
                    (unsigned long long)b->runs, (unsigned long long)b->left);
        }
        b->runs = 0;
        b->left = 0;
    }
    for (uint32_t i = 0; i < all.range_count; i++) {
        range *const r = &all.ranges[i];
        fprintf(all.out, "range %llu %llu\n", (unsigned long long)r->bytes, (unsigned long long)r->lines);
        r->bytes = 0;
        r->lines = 0;
        memset(r->touched, 0, line_count(r));
    }
    fprintf(all.out, "mark\n");
}

static void on_run(unsigned int cpu, void *data) {
    block *const b = data;
    (void)cpu;
    if (all.last != NULL && all.last->end != b->begin) {
        all.last->left++;
    }
    b->runs++;
    all.last = b;
}

static void on_mark(unsigned int cpu, void *data) {
    (void)cpu;
    (void)data;
    report();
    all.last = NULL;
}

static void on_access(unsigned int cpu, uint32_t info, uint64_t address, void *data) {
    (void)cpu;
    (void)data;
    for (uint32_t i = 0; i < all.range_count; i++) {
        range *const r = &all.ranges[i];
        if (holds(r, address)) {
            uint8_t *const line = &r->touched[(address - r->from) >> LINE_SHIFT];
            r->bytes += UINT64_C(1) << qemu_plugin_mem_size_shift(info);
            r->lines += *line == 0;
            *line = 1;
        }
    }
}

static block *block_of(uint64_t begin, uint64_t end, uint64_t instructions) {
    for (block *b = all.blocks; b != NULL; b = b->next) {
        if (b->begin == begin && b->instructions == instructions) {
            return b;
        }
    }
    block *const made = calloc(1, sizeof *made);
    if (made == NULL) {
        abort();
    }
    made->begin = begin;
    made->end = end;
    made->instructions = instructions;
    made->next = all.blocks;
    all.blocks = made;
    return made;
}

static bool is_counted(uint64_t address) {
    for (uint32_t i = 0; i < all.code_count; i++) {
        if (holds(&all.code[i], address)) {
            return true;
        }
    }
    return false;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb) {
    const uint64_t begin = qemu_plugin_tb_vaddr(tb);
    const size_t count = qemu_plugin_tb_n_insns(tb);
    uint64_t end = begin;
    (void)id;
    if (begin == all.mark) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_mark, NO_REGISTERS, NULL);
    }
    if (!is_counted(begin)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
        end += qemu_plugin_insn_size(insn);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, READS_AND_WRITES, NULL);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_run, NO_REGISTERS, block_of(begin, end, count));
}

static void at_exit(plugin_id id, void *data) {
    (void)id;
    (void)data;
    report();
    fclose(all.out);
}

/* The text behind `name=`, or NULL. */
static const char *value_of(const char *argument, const char *name) {
    const size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

/* One more of at most MOST_RANGES: true if the text says a range. */
static bool take_range(const char *text, range *ranges, uint32_t *count) {
    char *end = NULL;
    range *const r = &ranges[*count];
    if (*count == MOST_RANGES) {
        return false;
    }
    r->from = strtoull(text, &end, 0);
    r->to = *end == '-' ? strtoull(end + 1, NULL, 0) : 0;
    (*count)++;
    return r->to >= r->from;
}

static bool take(const char *argument) {
    const char *const out = value_of(argument, "out");
    const char *const mark = value_of(argument, "mark");
    const char *const code = value_of(argument, "code");
    const char *const touched = value_of(argument, "range");
    if (out != NULL) {
        all.out = fopen(out, "w");
        return all.out != NULL;
    }
    if (mark != NULL) {
        all.mark = strtoull(mark, NULL, 0);
        return true;
    }
    if (code != NULL) {
        return take_range(code, all.code, &all.code_count);
    }
    return touched != NULL && take_range(touched, all.ranges, &all.range_count);
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!take(argv[i])) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < all.range_count; i++) {
        all.ranges[i].touched = calloc(line_count(&all.ranges[i]), 1);
        if (all.ranges[i].touched == NULL) {
            return -1;
        }
    }
    if (all.out == NULL) {
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * Runs the model at the request of MLPerf Tiny's runner, in its performance and accuracy modes: commands end with '%', answers are
 * lines, and the last line of each answer is m-ready. */
#include "board_port.h"
#include "program.h"

#include "../harness/harness.h"

#include <string.h>

/* The meaning of a byte of the runner's data: an element of the input, an element plus 128, or a fourth of a float. */
enum { INT8, UINT8, FLOAT };

#define MOST_COMMAND 80u
#define DEFAULT_WARM_UPS 10u

PILLION_DEFINE_ARENA

static const pillion_model *const model = &PILLION_MODEL;
static union {
    uint8_t bytes[PILLION_DATA_BYTES];
    float numbers[PILLION_DATA_BYTES / sizeof(float)];
} data;
static uint32_t data_wanted, data_loaded;

/* ---- time ---- */

/* Looked at more often than the counter wraps. */
static uint64_t now(void) {
    static uint64_t ticks;
    static uint32_t last;
    const uint32_t next = board_ticks();
    ticks += (uint32_t)(next - last);
    last = next;
    return ticks;
}

/* ---- answers ---- */

static void print(const char *text) {
    while (*text != '\0') {
        board_put((uint8_t)*text++);
    }
}

static void print_number(uint64_t value, uint32_t digits) {
    char text[24];
    char *p = text + sizeof text - 1;
    *p = '\0';
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
        digits -= digits > 0;
    } while (value != 0 || digits > 0);
    print(p);
}

static void print_line(const char *before, uint64_t value, const char *after) {
    print(before);
    print_number(value, 1);
    print(after);
    print("\r\n");
}

static void print_thousandths(uint32_t value) {
    print_number(value / 1000, 1);
    print(".");
    print_number(value % 1000, 3);
}

static void print_timestamp(void) {
    print_line("m-lap-us-", now() * 1000000u / board.counter_hz, "");
}

/* ---- inference ---- */

static int8_t quantized(float real) {
    const float steps = real / PILLION_INPUT_SCALE;
    const float shifted = steps + (steps < 0 ? -0.5f : 0.5f);
    const int32_t integer = shifted > 512 ? 512 : shifted < -512 ? -512 : (int32_t)shifted;
    const int32_t q = integer + PILLION_INPUT_ZERO;
    return (int8_t)(q > 127 ? 127 : q < -128 ? -128 : q);
}

static void load_input(void) {
    int8_t *const to = (int8_t *)pillion_address(model, PILLION_ARENA, &model->inputs[0]);
    for (uint32_t i = 0; i < model->inputs[0].bytes; i++) {
        if (PILLION_DATA_FORM == FLOAT) {
            to[i] = quantized(data.numbers[i]);
        } else {
            to[i] = (int8_t)(data.bytes[i] ^ (PILLION_DATA_FORM == UINT8 ? 0x80u : 0u));
        }
    }
}

static void print_results(void) {
    const int8_t *const from = (const int8_t *)pillion_address(model, PILLION_ARENA, &model->outputs[0]);
    const uint32_t count = model->outputs[0].bytes;
    print("m-results-[");
    if (PILLION_DATA_FORM == FLOAT) {
        float sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            const float difference = (float)(from[i] - PILLION_OUTPUT_ZERO) * PILLION_OUTPUT_SCALE - data.numbers[i];
            sum += difference * difference;
        }
        print_thousandths((uint32_t)(sum / (float)count * 1000.0f + 0.5f));
    } else {
        for (uint32_t i = 0; i < count; i++) {
            print(i > 0 ? "," : "");
            print_thousandths((uint32_t)((float)(from[i] - PILLION_OUTPUT_ZERO) * PILLION_OUTPUT_SCALE * 1000.0f));
        }
    }
    print("]\r\n");
}

/* The arena is working memory, so the input is written for each run; this counts. */
static void infer(uint32_t runs, uint32_t warm_ups) {
    if (data_loaded != PILLION_DATA_BYTES) {
        print_line("e-[the input is not loaded: ", PILLION_DATA_BYTES, " bytes]");
        return;
    }
    print_line("m-warmup-start-", warm_ups, "");
    for (; warm_ups > 0; warm_ups--) {
        load_input();
        pillion_run(model, PILLION_ARENA, NULL, NULL);
    }
    print("m-warmup-done\r\n");
    print_line("m-infer-start-", runs, "");
    print_timestamp();
    for (; runs > 0; runs--) {
        load_input();
        pillion_run(model, PILLION_ARENA, NULL, NULL);
        (void)now();
    }
    print_timestamp();
    print("m-infer-done\r\n");
    print_results();
}

/* ---- commands ---- */

/* Splits the next word off; empty at the end. */
static char *next_word(char **text) {
    while (**text == ' ') {
        (*text)++;
    }
    char *const word = *text;
    while (**text != ' ' && **text != '\0') {
        (*text)++;
    }
    if (**text == ' ') {
        *(*text)++ = '\0';
    }
    return word;
}

static int is(const char *word, const char *other) {
    return strlen(word) == strlen(other) && memcmp(word, other, strlen(other)) == 0;
}

/* A decimal number of up to nine digits, or -1. */
static int32_t number_in(const char *word) {
    int32_t value = 0;
    const size_t digits = strlen(word);
    for (size_t i = 0; i < digits; i++) {
        if (word[i] < '0' || word[i] > '9' || digits > 9) {
            return -1;
        }
        value = 10 * value + (word[i] - '0');
    }
    return digits == 0 ? -1 : value;
}

static int32_t hexadecimal(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    const char small = (char)(digit | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

static void load_bytes(const char *digits) {
    for (; digits[0] != '\0' && data_loaded < data_wanted; digits += 2) {
        const int32_t high = hexadecimal(digits[0]), low = digits[1] == '\0' ? -1 : hexadecimal(digits[1]);
        if (high < 0 || low < 0) {
            print("e-[bytes are pairs of hexadecimal digits]\r\n");
            return;
        }
        data.bytes[data_loaded++] = (uint8_t)(high << 4 | low);
        if (data_loaded == data_wanted) {
            print("m-load-done\r\n");
        }
    }
}

static void print_bytes(void) {
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < data_loaded; i++) {
        const char text[] = {digits[data.bytes[i] >> 4], digits[data.bytes[i] & 15u], '\0'};
        print(i % 8 == 0 ? "m-buffer-" : "-");
        print(text);
        print(i % 8 == 7 || i + 1 == data_loaded ? "\r\n" : "");
    }
}

static void answer_db(char *rest) {
    const char *const word = next_word(&rest);
    if (is(word, "load")) {
        const int32_t bytes = number_in(next_word(&rest));
        data_loaded = 0;
        data_wanted = bytes == (int32_t)PILLION_DATA_BYTES ? PILLION_DATA_BYTES : 0;
        if (data_wanted == 0) {
            print_line("e-[the input has ", PILLION_DATA_BYTES, " bytes]");
        } else {
            print_line("m-[Expecting ", data_wanted, " bytes]");
        }
    } else if (is(word, "print")) {
        print_bytes();
    } else if (*word == '\0') {
        print("e-[db load N, db HH, or db print]\r\n");
    } else {
        load_bytes(word);
    }
}

static void answer_infer(char *rest) {
    const char *const runs = next_word(&rest), *const warm_ups = next_word(&rest);
    const int32_t n = *runs == '\0' ? 1 : number_in(runs);
    const int32_t w = *warm_ups == '\0' ? (int32_t)DEFAULT_WARM_UPS : number_in(warm_ups);
    if (n <= 0 || w < 0) {
        print("e-[infer N W: N above 0, W at least 0]\r\n");
    } else {
        infer((uint32_t)n, (uint32_t)w);
    }
}

static void answer(char *command) {
    const char *const word = next_word(&command);
    if (is(word, "name")) {
        print("m-name-dut-[Pillion]\r\n");
    } else if (is(word, "profile")) {
        print("m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[" PILLION_BENCHMARK_MODEL "]\r\n");
    } else if (is(word, "timestamp")) {
        print_timestamp();
    } else if (is(word, "db")) {
        answer_db(command);
    } else if (is(word, "infer")) {
        answer_infer(command);
    } else if (is(word, "results")) {
        print_results();
    } else if (is(word, "help")) {
        print("name, profile, timestamp, db load N, db HH..., db print, infer N [W=10], results, help\r\n");
    } else {
        print("e-[Unknown command: ");
        print(word);
        print("]\r\n");
    }
    print("m-ready\r\n");
}

int main(void) {
    static char command[MOST_COMMAND + 1];
    uint32_t length = 0;
    board_start();
    print("m-timestamp-mode-performance\r\n");
    print_timestamp();
    print("m-init-done\r\nm-ready\r\n");
    for (;;) {
        const int32_t got = board_get();
        if (got < 0) {
            (void)now();
        } else if (got == '%') {
            command[length] = '\0';
            length = 0;
            answer(command);
        } else if (got != '\r' && got != '\n' && length < MOST_COMMAND) {
            command[length++] = (char)got;
        }
    }
}

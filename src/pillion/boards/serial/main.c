/* SPDX-License-Identifier: Apache-2.0
 * Runs the model at the request of a computer at the other end of a serial line: `pillion run FOLDER --on serial:PORT`.
 *
 * A frame begins and ends with FLAG. Between them lie type, number, contents, and the CRC-32 of all these, least significant byte
 * first; FLAG and ESCAPE within them are sent as ESCAPE and the byte XOR 0x20, as in RFC 1662. So each FLAG ends any noise
 * before it. Each request has one answer: its type with bit 7 set and its number, or ERROR with a code. A request that is repeated
 * with its number is answered again, but runs the model once. */
#include "board_port.h"
#include "program.h"

#include "../harness/harness.h"

#include <string.h>
#ifdef PILLION_HAS_SELFTEST
#include "../selftest/selftest.h"
#endif

#define VERSION 1u
#define FLAG 0x7eu
#define ESCAPE 0x7du
#define FLIP 0x20u
enum { HELLO = 1, INPUT, RUN, OUTPUT, PROFILE, SELFTEST, STARTED = 0x7f, ANSWER = 0x80, ERROR = 0xff };
enum { DAMAGED = 1, UNKNOWN, MISFIT, NO_INPUTS, NO_SELFTEST };
enum { RESET_STATE = 1, COUNT_OPS = 2, MEASURE_STACK = 4 };

/* The most bytes of a frame between type and CRC; the host asks for them, so they may be more or fewer. */
#ifndef PILLION_FRAME_BYTES
#define PILLION_FRAME_BYTES 1024u
#endif
#define AROUND 6u /* type, number, CRC */
#define MOST_TEXT 63u
#define JUNK 0xa5
#define PAINT 0xa51c0de5u
#define STACK_UNKNOWN UINT32_MAX

PILLION_DEFINE_ARENA
#if PILLION_STATE_BYTES > 0
__attribute__((aligned(16), section(".pillion_state"))) uint8_t pillion_state[PILLION_STATE_BYTES];
#define STATE pillion_state
#else
#define STATE NULL
#endif
#ifdef PILLION_ROWS
/* Rows are handed over from here: on this line they come faster than from a camera, or slower. */
__attribute__((section(".pillion_state"))) static uint8_t picture[PILLION_ROWS * PILLION_ROW_BYTES];
#define PICTURE picture
#else
#define PICTURE NULL
#endif

static const pillion_model *const model = &PILLION_MODEL;
static const uint8_t program_hash[16] = {PILLION_PROGRAM_HASH};

static uint8_t frame[PILLION_FRAME_BYTES + AROUND];
static uint32_t received_bytes; /* of the inputs of the next run */
static int32_t last_run = -1;   /* the number of the request of the last run */

/* ---- frames ---- */

static uint32_t crc_of(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    for (int i = 0; i < 8; i++) {
        crc = crc >> 1 ^ (0xedb88320u & -(crc & 1u));
    }
    return crc;
}

static uint32_t sent_crc;

static void send_escaped(uint8_t byte) {
    if (byte == FLAG || byte == ESCAPE) {
        board_put(ESCAPE);
        byte ^= FLIP;
    }
    board_put(byte);
}

static void send(uint32_t byte) {
    sent_crc = crc_of(sent_crc, (uint8_t)byte);
    send_escaped((uint8_t)byte);
}

static void send_word(uint32_t word) {
    for (uint32_t i = 0; i < 32; i += 8) {
        send(word >> i & 0xffu);
    }
}

static void send_two_words(uint64_t value) {
    send_word((uint32_t)value);
    send_word((uint32_t)(value >> 32));
}

static void send_bytes(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        send(bytes[i]);
    }
}

static void send_text(const char *text) {
    for (uint32_t i = 0; text[i] != '\0' && i < MOST_TEXT; i++) {
        send((uint8_t)text[i]);
    }
    send(0);
}

static void begin_answer(uint32_t type, uint8_t number) {
    board_put(FLAG);
    sent_crc = UINT32_MAX;
    send(type);
    send(number);
}

static void end_answer(void) {
    const uint32_t crc = ~sent_crc;
    for (uint32_t i = 0; i < 32; i += 8) {
        send_escaped((uint8_t)(crc >> i));
    }
    board_put(FLAG);
}

static void send_error(uint8_t number, uint32_t code) {
    begin_answer(ERROR, number);
    send(code);
    end_answer();
}

static uint32_t word_at(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The bytes of the next frame with anything in it; more than fit are dropped, and then it is damaged. */
static uint32_t receive_frame(void) {
    uint32_t bytes = 0;
    uint8_t flip = 0;
    for (;;) {
        const int32_t got = board_get();
        if (got < 0) {
            continue;
        }
        if (got == FLAG) {
            if (bytes > 0) {
                return bytes;
            }
            flip = 0;
        } else if (got == ESCAPE) {
            flip = FLIP;
        } else {
            if (bytes < sizeof frame) {
                frame[bytes] = (uint8_t)got ^ flip;
            }
            bytes += bytes <= sizeof frame;
            flip = 0;
        }
    }
}

static int is_damaged(uint32_t bytes) {
    if (bytes < AROUND || bytes > sizeof frame) {
        return 1;
    }
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; i < bytes - 4; i++) {
        crc = crc_of(crc, frame[i]);
    }
    return ~crc != word_at(frame + bytes - 4);
}

/* ---- inputs and outputs, each as one row of bytes ---- */

static uint32_t total_bytes(const pillion_buffer *buffers, uint32_t count) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += buffers[i].bytes;
    }
    return bytes;
}

/* The place of a byte, and how many more of its buffer follow it. */
static uint8_t *place_of(const pillion_buffer *buffers, uint32_t offset, uint32_t *left) {
    while (offset >= buffers->bytes) {
        offset -= buffers++->bytes;
    }
    *left = buffers->bytes - offset;
    return (buffers->offset == PILLION_NOWHERE ? PICTURE : pillion_address(model, PILLION_ARENA, buffers)) + offset;
}

static uint32_t take_inputs(uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const uint32_t all = total_bytes(model->inputs, model->input_count);
    received_bytes = offset == 0 ? 0 : received_bytes;
    if (offset > received_bytes) {
        return NO_INPUTS;
    }
    if (offset > all || count > all - offset) {
        return MISFIT;
    }
    for (uint32_t at = 0, left; at < count; at += left) {
        uint8_t *const to = place_of(model->inputs, offset + at, &left);
        left = left < count - at ? left : count - at;
        memcpy(to, bytes + at, left);
    }
    received_bytes = offset + count;
    return 0;
}

static void send_outputs(uint32_t offset, uint32_t count) {
    for (uint32_t at = 0, left; at < count; at += left) {
        const uint8_t *const from = place_of(model->outputs, offset + at, &left);
        left = left < count - at ? left : count - at;
        send_bytes(from, left);
    }
}

/* ---- runs ---- */

static uint64_t op_ticks[PILLION_OP_COUNT], all_ticks;
static uint32_t last_ticks, no_op_ticks, stack_bytes;
static void (*after)(uint32_t op);

static void after_op(uint32_t op) {
    const uint32_t spent = board_ticks() - last_ticks;
    if (op < PILLION_OP_COUNT) {
        op_ticks[op] += spent > no_op_ticks ? spent - no_op_ticks : 0;
    }
    last_ticks = board_ticks();
}

/* The cycles of an empty op. */
static void measure_no_op(void) {
    void (*volatile call)(uint32_t op) = after_op;
    no_op_ticks = 0;
    op_ticks[0] = 0;
    last_ticks = board_ticks();
    call(PILLION_OP_COUNT);
    call(0);
    no_op_ticks = (uint32_t)op_ticks[0];
}

static void run_model(void) {
    const pillion_row_functions *const rows = model->row_functions;
    const uint32_t from = board_ticks();
    last_ticks = from;
    if (rows != NULL) {
        pillion_begin_rows(model, PILLION_ARENA, STATE, after);
        (void)rows->hand_over(PILLION_ARENA, PICTURE, rows->rows);
        (void)rows->end(PILLION_ARENA);
    } else {
        pillion_run(model, PILLION_ARENA, STATE, after);
    }
    all_ticks = (uint32_t)(board_ticks() - from);
}

__attribute__((noinline)) static uint32_t run_on_painted_stack(void) {
    uint32_t *top, *lowest = board.stack_bottom;
    __asm volatile("mov %0, sp" : "=r"(top));
    for (volatile uint32_t *p = board.stack_bottom; p < top; p++) {
        *p = PAINT;
    }
    run_model();
    while (lowest < top && *(volatile uint32_t *)lowest == PAINT) {
        lowest++;
    }
    return (uint32_t)((uintptr_t)top - (uintptr_t)lowest);
}

static uint32_t run_once(uint32_t wishes) {
    if (received_bytes != total_bytes(model->inputs, model->input_count)) {
        return NO_INPUTS;
    }
    received_bytes = 0;
    if ((wishes & RESET_STATE) != 0) {
        pillion_reset_state(model, STATE);
    }
    after = NULL;
    stack_bytes = STACK_UNKNOWN;
    if ((wishes & COUNT_OPS) != 0) {
        measure_no_op();
        memset(op_ticks, 0, sizeof op_ticks);
        after = after_op;
    }
    if ((wishes & MEASURE_STACK) != 0 && board.stack_bottom != NULL) {
        stack_bytes = run_on_painted_stack();
    } else {
        run_model();
    }
    return 0;
}

/* ---- requests ---- */

static void answer_hello(uint8_t number) {
    received_bytes = 0;
    last_run = -1;
    begin_answer(HELLO | ANSWER, number);
    send(VERSION);
    send(board.is_emulated);
    send(PILLION_FRAME_BYTES & 0xffu);
    send(PILLION_FRAME_BYTES >> 8);
    send_bytes(program_hash, sizeof program_hash);
    send_word(board.clock_hz);
    send_word(board.counter_hz);
    send_word(total_bytes(model->inputs, model->input_count));
    send_word(total_bytes(model->outputs, model->output_count));
    send_word(model->op_count);
    send_text(board.chip);
    send_text("GCC-compatible " __VERSION__);
#if defined(__OPTIMIZE_SIZE__)
    send_text("-Os");
#elif defined(__OPTIMIZE__)
    send_text("-O");
#else
    send_text("-O0");
#endif
    end_answer();
}

static void answer_run(uint8_t number, uint32_t wishes) {
    if (last_run != number) {
        const uint32_t problem = run_once(wishes);
        if (problem != 0) {
            send_error(number, problem);
            return;
        }
        last_run = number;
    }
    begin_answer(RUN | ANSWER, number);
    send_two_words(all_ticks);
    send_word(stack_bytes);
    end_answer();
}

static void answer_output(uint8_t number, uint32_t offset, uint32_t count) {
    const uint32_t all = total_bytes(model->outputs, model->output_count);
    if (last_run < 0 || offset > all || count > all - offset || count > PILLION_FRAME_BYTES) {
        send_error(number, last_run < 0 ? NO_INPUTS : MISFIT);
        return;
    }
    begin_answer(OUTPUT | ANSWER, number);
    send_outputs(offset, count);
    end_answer();
}

static void answer_profile(uint8_t number, uint32_t op) {
    begin_answer(PROFILE | ANSWER, number);
    for (uint32_t sent = 0; op < PILLION_OP_COUNT && sent + 8 <= PILLION_FRAME_BYTES; op++, sent += 8) {
        send_two_words(op_ticks[op]);
    }
    end_answer();
}

static void answer_selftest(uint8_t number) {
#ifdef PILLION_HAS_SELFTEST
    pillion_difference found = {0, 0, 0, 0};
#if PILLION_STATE_BYTES > 0
    const uint32_t wrong = PILLION_HAS_SELFTEST(PILLION_ARENA, pillion_state, &found);
#else
    const uint32_t wrong = PILLION_HAS_SELFTEST(PILLION_ARENA, &found);
#endif
    begin_answer(SELFTEST | ANSWER, number);
    send_word(wrong);
    send_word(found.sample);
    send_word(found.op);
    send_word(found.result);
    send_word(found.element);
    end_answer();
#else
    send_error(number, NO_SELFTEST);
#endif
}

static void answer(const uint8_t *contents, uint32_t count) {
    const uint8_t number = frame[1];
    static const uint8_t least[] = {[HELLO] = 0, [INPUT] = 4, [RUN] = 1, [OUTPUT] = 8, [PROFILE] = 4, [SELFTEST] = 0};
    const uint32_t type = frame[0];
    if (type < HELLO || type > SELFTEST) {
        send_error(number, UNKNOWN);
    } else if (count < least[type] || (count > least[type] && type != INPUT)) {
        send_error(number, MISFIT);
    } else if (type == HELLO) {
        answer_hello(number);
    } else if (type == INPUT) {
        const uint32_t problem = take_inputs(word_at(contents), contents + 4, count - 4);
        if (problem != 0) {
            send_error(number, problem);
        } else {
            begin_answer(INPUT | ANSWER, number);
            end_answer();
        }
    } else if (type == RUN) {
        answer_run(number, contents[0]);
    } else if (type == OUTPUT) {
        answer_output(number, word_at(contents), word_at(contents + 4));
    } else if (type == PROFILE) {
        answer_profile(number, word_at(contents));
    } else {
        answer_selftest(number);
    }
}

int main(void) {
    board_start();
    for (uint32_t i = 0; i == 0 || i < model->memory_count; i++) {
        memset(pillion_memory_at(model, PILLION_ARENA, i), JUNK, model->memory_count == 0 ? model->arena_bytes : model->memories[i].bytes);
    }
    pillion_reset_state(model, STATE);
    begin_answer(STARTED, 0);
    end_answer();
    for (;;) {
        const uint32_t bytes = receive_frame();
        if (is_damaged(bytes)) {
            send_error(0, DAMAGED);
        } else {
            answer(frame + 2, bytes - AROUND);
        }
    }
}

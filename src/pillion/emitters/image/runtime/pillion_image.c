/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion_image_steps.h"

#include "pillion/rows.h"

enum { READ, WRITTEN, NUMBER, OPTIONAL };

#define IS_LOOP UINT32_MAX /* in place of where it ends */

/* ---- runs ---- */

static const uint32_t *call(const pillion_image *model, const uint32_t *at) {
    const pillion_kernel *const kernel = kernel_of(model, at[0] >> 8);
    const uint32_t *const from = model->block + at[1];
    uintptr_t params[PILLION_IMAGE_PARAM_WORDS];
    void *operands[PILLION_IMAGE_OPERANDS];
    at += 2;
    void **const end = operands + kernel->operands;
    for (void **operand = operands; operand < end; operand++) {
        *operand = (void *)address(model, &at);
    }
    load_params(model, kernel, from, params);
    kernel->call(params, operands);
    return at;
}

static const uint32_t *run_segment(const pillion_image *model, const uint32_t *at) {
    void *operands[PILLION_IMAGE_OPERANDS + 1];
    const void *inputs[PILLION_IMAGE_OPERANDS];
    const uint32_t count = at[1] & 0xffu, total = at[1] >> 8;
    const uint32_t segment = *at >> 8;
    at += 2;
    for (uint32_t i = 0; i < total + 1; i++) {
        operands[i] = (void *)address(model, &at);
        if (i < count) {
            inputs[i] = operands[i];
        }
    }
    model->npu(model, segment, inputs, operands + count, operands[total]);
    return at;
}

static const uint32_t *move(const pillion_image *model, const uint32_t *at) {
    const uint32_t bytes = at[1];
    at += 2;
    uint8_t *const to = (uint8_t *)address(model, &at);
    pillion_move_rows(to, (const void *)address(model, &at), bytes);
    return at;
}

static const uint32_t *fill(const pillion_image *model, const uint32_t *at) {
    const uint32_t value = at[1], bytes = at[3];
    at += 2;
    uint8_t *const to = (uint8_t *)address(model, &at);
    for (uint32_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * (i & 3));
    }
    return at;
}

/* Steps that run if a flag has their value. */
static const uint32_t *branch(const pillion_image *model, const uint32_t *at) {
    const uint32_t value = at[0] >> 8, words = at[1];
    at += 2;
    const uint8_t flag = *(const uint8_t *)address(model, &at);
    return (flag != 0) == (value != 0) ? at : at + words;
}

/* Takes rows that were handed over; NULL if they are too few. */
static const uint32_t *take(pillion_image *model, const uint32_t *at) {
    const uint32_t wanted = at[1] - model->taken;
    const uint32_t count = model->given_count < wanted ? model->given_count : wanted;
    at += 2;
    const int is_kept = AREA(*at) != NOWHERE;
    const uintptr_t to = address(model, &at);
    if (is_kept && count > 0) {
        pillion_move_rows((void *)(to + model->taken * model->row_bytes), model->given, count * model->row_bytes);
    }
    if (count > 0) {
        model->given += count * model->row_bytes;
    }
    model->given_count -= count;
    model->missing -= count;
    model->taken = count < wanted ? model->taken + count : 0;
    return count == wanted ? at : NULL;
}

/* Runs the schedule until it stops, pauses, or waits for rows. */
static void resume(pillion_image *model) {
    const uint32_t *at = model->at, *next;
    for (;;) {
        switch (*at & 0xffu) {
        case CALL:
            at = call(model, at);
            break;
        case BOUND: {
            const bound_call *const bound = bound_call_at(at);
            bound->call(bound->params, bound->operands);
            at += *at >> 8;
            break;
        }
        case LOOP:
            model->counts[model->depth] = 0;
            at += 2;
            model->bodies[model->depth++] = at;
            break;
        case END: {
            const uint32_t inner = model->depth - 1;
            at++;
            if (++model->counts[inner] < model->bodies[inner][-1]) {
                at = model->bodies[inner];
            } else {
                model->depth = inner;
            }
            break;
        }
        case MOVE:
            at = move(model, at);
            break;
        case FILL:
            at = fill(model, at);
            break;
        case DONE:
            if (model->after_op != NULL) {
                model->after_op(*at >> 8);
            }
            at++;
            break;
        case SEGMENT:
            at = run_segment(model, at);
            break;
        case BRANCH:
            at = branch(model, at);
            break;
        case TAKE:
            next = take(model, at);
            model->at = at;
            if (next == NULL) {
                return;
            }
            at = next;
            break;
        case PAUSE:
            model->at = at + 1;
            return;
        default:
            model->at = at;
            return;
        }
    }
}

static pillion_image_status start(pillion_image *model, void *arena, void *state, void (*after_op)(uint32_t op)) {
    if ((((uintptr_t)arena | (uintptr_t)state) & 15u) != 0 || arena == NULL || (state == NULL && model->state_bytes > 0)) {
        return PILLION_IMAGE_MISALIGNED;
    }
    if (model->segments > 0 && model->npu == NULL) {
        return PILLION_IMAGE_NPU;
    }
    model->bases[IN_ARENA] = (uintptr_t)arena;
    model->bases[IN_STATE] = (uintptr_t)state;
    model->after_op = after_op;
    const int is_bound = model->bound != NULL && model->bound_arena == arena && model->bound_state == state;
    model->at = is_bound ? model->bound : model->block + ((const header *)(const void *)model->block)->schedule / 4;
    model->depth = 0;
    model->taken = 0;
    model->missing = model->rows;
    resume(model);
    return PILLION_IMAGE_OK;
}

pillion_image_status pillion_image_run(pillion_image *model, void *arena, void *state, void (*after_op)(uint32_t op)) {
    return model->rows > 0 ? PILLION_IMAGE_CALL : start(model, arena, state, after_op);
}

pillion_image_status pillion_image_begin(pillion_image *model, void *arena, void *state, void (*after_op)(uint32_t op)) {
    return model->rows == 0 ? PILLION_IMAGE_CALL : start(model, arena, state, after_op);
}

uint32_t pillion_image_rows(pillion_image *model, const void *rows, uint32_t count) {
    if (model->missing > 0) {
        model->given = rows;
        model->given_count = count;
        resume(model);
    }
    return model->missing;
}

uint32_t pillion_image_end(pillion_image *model) {
    if (model->missing == 0) {
        resume(model);
    }
    return model->missing;
}

pillion_image_status pillion_image_reset(pillion_image *model, void *state) {
    if (((uintptr_t)state & 15u) != 0 || (state == NULL && model->state_bytes > 0)) {
        return PILLION_IMAGE_MISALIGNED;
    }
    model->bases[IN_STATE] = (uintptr_t)state;
    model->at = model->block + ((const header *)(const void *)model->block)->reset / 4;
    model->depth = 0;
    resume(model);
    return PILLION_IMAGE_OK;
}

/* ---- checks ---- */

/* The bytes of an operand in all iterations. */
typedef struct {
    uint32_t area, begin, end;
} place;

typedef struct {
    const header *head;
    const uint32_t *words;
    const pillion_kernel_set *set;
    uint32_t at, end, depth;
    uint32_t counts[PILLION_IMAGE_LOOPS];
    uint32_t repeats[PILLION_IMAGE_LOOPS + 1];
    uint32_t nested, ends[1 + PILLION_IMAGE_LOOPS + PILLION_IMAGE_BRANCHES]; /* of the schedule, loops and branches around */
    uint32_t rows;
    uint32_t limits[3]; /* the sizes of the areas */
    place last; /* of the operand that was checked last */
    pillion_image_status wrong;
} checker;

static uint32_t checksum(const uint8_t *bytes, uint32_t count) {
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (uint32_t bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static int is_inside(const header *head, uint32_t offset, uint64_t bytes, uint32_t alignment) {
    return offset % alignment == 0 && offset >= sizeof(header) && offset <= head->size && bytes <= head->size - offset;
}

static void require(checker *check, int holds) {
    if (!holds) {
        check->wrong = PILLION_IMAGE_SCHEDULE;
    }
}

static int has_words(checker *check, uint32_t count) {
    require(check, check->end - check->at >= count);
    return !check->wrong;
}

/* Checks an operand: all places that it takes in the enclosing loops lie in its memory. `bytes` 0: as many as the image says. */
static void check_operand(checker *check, uint32_t use, uint32_t alignment, uint32_t bytes) {
    if (!has_words(check, 2)) {
        return;
    }
    const uint32_t word = check->words[check->at], size = check->words[check->at + 1], area = AREA(word);
    const uint32_t strides = word & MOVES ? check->depth : 0;
    int64_t low = word & OFFSET, high = low;
    uint32_t bits = word & OFFSET;
    check->at += 2;
    if (!has_words(check, strides)) {
        return;
    }
    for (uint32_t i = 0; i < strides; i++) {
        const int32_t stride = (int32_t)check->words[check->at++];
        const int64_t way = (int64_t)stride * (check->counts[i] - 1);
        low += way < 0 ? way : 0;
        high += way < 0 ? 0 : way;
        bits |= (uint32_t)stride;
    }
    check->last = (place){area, (uint32_t)low, (uint32_t)high + size};
    const int is_null = area == NOWHERE && low == 0 && high == 0 && size == 0;
    if (use == NUMBER ? area == NOWHERE && low >= 0 && high <= INT32_MAX : is_null && use == OPTIONAL) {
        return;
    }
    const int is_writable = area != IN_BLOCK || use == READ;
    const int64_t first = area == IN_BLOCK ? check->head->data : 0;
    if (use == NUMBER || area >= NOWHERE || !is_writable || low < first || size < bytes || bits % alignment != 0 ||
        high + size > check->limits[area]) {
        check->wrong = PILLION_IMAGE_BOUNDS;
    }
}

static void check_call(checker *check, uint32_t number, uint32_t params) {
    const pillion_kernel_set *const set = check->set;
    if (number >= set->count || set->places[number] == 0) {
        check->wrong = PILLION_IMAGE_KERNEL;
        return;
    }
    const pillion_kernel *const kernel = &set->kernels[set->places[number] - 1];
    if (params > check->head->size / 4 || !is_inside(check->head, params * 4, kernel->words * 4u + 12u, 4)) {
        check->wrong = PILLION_IMAGE_BOUNDS;
        return;
    }
    for (uint32_t i = 0; i < kernel->pointer_count; i++) {
        const uint32_t place = check->words[params + kernel->pointers[i]];
        if (place < check->head->data || place >= check->head->size || place % 16 != 0) {
            check->wrong = PILLION_IMAGE_BOUNDS;
        }
    }
    const uint32_t last = kernel->operands - 1u;
    place others[PILLION_IMAGE_OPERANDS];
    for (uint32_t i = 0; i <= last; i++) {
        const uint32_t use = i == last ? OPTIONAL : i == kernel->row ? NUMBER : i == last - 1 ? WRITTEN : READ;
        check_operand(check, use, 1u << (kernel->alignment >> 2 * i & 3u), 0);
        others[i] = check->last;
    }
    /* Kernels keep pointers in their scratch memory: nothing else of the call lies there. */
    const place scratch = check->last;
    for (uint32_t i = 0; i < last && scratch.area != NOWHERE; i++) {
        if (others[i].area == scratch.area && others[i].begin < scratch.end && scratch.begin < others[i].end) {
            check->wrong = PILLION_IMAGE_BOUNDS;
        }
    }
}

static void check_segment(checker *check, uint32_t number, uint32_t counts) {
    const uint32_t inputs = counts & 0xffu, total = counts >> 8;
    if (number >= check->head->segments || total > PILLION_IMAGE_OPERANDS || inputs > total) {
        check->wrong = PILLION_IMAGE_SCHEDULE;
        return;
    }
    for (uint32_t i = 0; i <= total; i++) {
        check_operand(check, i == total ? OPTIONAL : i < inputs ? READ : WRITTEN, 1, 0);
    }
}

/* Loops and branches end in the opposite order of their begin. */
static void nest(checker *check, uint32_t end) {
    require(check, check->nested <= PILLION_IMAGE_LOOPS + PILLION_IMAGE_BRANCHES);
    if (!check->wrong) {
        check->ends[check->nested++] = end;
    }
}

static void check_loop(checker *check, uint32_t count) {
    const uint32_t depth = check->depth;
    const uint64_t repeats = (uint64_t)count * check->repeats[depth];
    require(check, depth < PILLION_IMAGE_LOOPS && count > 0 && repeats <= INT32_MAX);
    nest(check, IS_LOOP);
    if (!check->wrong) {
        check->counts[depth] = count;
        check->repeats[depth + 1] = (uint32_t)repeats;
        check->depth++;
    }
}

/* Branches end behind a step, and the schedule as they do. */
static void close_branches(checker *check) {
    while (check->nested > 0 && check->at >= check->ends[check->nested - 1]) {
        require(check, check->at == check->ends[--check->nested]);
    }
}

static void check_step(checker *check, int is_reset) {
    const uint32_t word = check->words[check->at++], kind = word & 0xffu, number = word >> 8;
    const uint32_t has_argument = kind != END && kind != DONE && kind != PAUSE;
    require(check, !is_reset || kind == MOVE || kind == FILL);
    if (!has_words(check, has_argument)) {
        return;
    }
    const uint32_t argument = check->words[check->at];
    check->at += has_argument;
    switch (kind) {
    case CALL:
        check_call(check, number, argument);
        return;
    case SEGMENT:
        check_segment(check, number, argument);
        return;
    case LOOP:
        check_loop(check, argument);
        return;
    case END:
        require(check, check->ends[--check->nested] == IS_LOOP);
        check->depth--;
        return;
    case DONE:
        return;
    case BRANCH:
        check_operand(check, READ, 1, 1);
        require(check, number <= 1 && argument > 0 && argument <= check->end - check->at);
        nest(check, check->at + argument);
        return;
    case PAUSE:
        require(check, check->head->rows > 0 && check->nested == 1);
        return;
    case MOVE:
        check_operand(check, WRITTEN, 1, argument);
        check_operand(check, READ, 1, argument);
        return;
    case FILL:
        check_operand(check, WRITTEN, 1, 0);
        return;
    case TAKE: {
        const uint64_t bytes = (uint64_t)argument * check->head->row_bytes, rows = (uint64_t)argument * check->repeats[check->depth];
        require(check, rows <= check->head->rows - check->rows && argument > 0 && check->nested == check->depth + 1);
        check->rows += (uint32_t)rows;
        check_operand(check, OPTIONAL, 1, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes);
        return;
    }
    default:
        require(check, 0);
    }
}

/* The last word of a schedule, and no other, is STOP. */
static pillion_image_status check_schedule(checker *check, uint32_t offset, uint32_t count, int is_reset) {
    if (count == 0 || !is_inside(check->head, offset, 4ull * count, 4)) {
        return PILLION_IMAGE_LAYOUT;
    }
    check->at = offset / 4;
    check->end = check->at + count - 1;
    check->depth = 0;
    check->nested = 0;
    check->wrong = PILLION_IMAGE_OK;
    nest(check, check->end);
    check->limits[IN_BLOCK] = check->head->size;
    check->limits[IN_ARENA] = is_reset ? 0 : check->head->arena_bytes;
    check->limits[IN_STATE] = check->head->state_bytes;
    check->repeats[0] = 1;
    require(check, check->words[check->end] == STOP);
    while (!check->wrong) {
        close_branches(check);
        if (check->at >= check->end) {
            require(check, check->nested == 0);
            break;
        }
        check_step(check, is_reset);
    }
    return check->wrong;
}

/* Texts lie before the data; a zero precedes the data. */
static int is_text(const header *head, uint32_t offset) {
    return offset >= sizeof(header) && offset < head->data && ((const uint8_t *)head)[head->data - 1] == 0;
}

static pillion_image_status check_buffers(const header *head, const uint8_t *bytes) {
    const uint64_t count = (uint64_t)head->input_count + head->output_count;
    if (!is_inside(head, head->buffers, count * (uint32_t)sizeof(pillion_image_buffer), 4) || !is_text(head, head->name) || !is_text(head, head->core)) {
        return PILLION_IMAGE_LAYOUT;
    }
    const pillion_image_buffer *const buffers = (const pillion_image_buffer *)(const void *)(bytes + head->buffers);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        const pillion_image_buffer *const one = &buffers[i];
        const int by_rows = one->offset == UINT32_MAX && i < head->input_count && head->rows > 0;
        if (!is_text(head, one->name) || !is_inside(head, one->shape, 4ull * one->rank, 4)) {
            return PILLION_IMAGE_LAYOUT;
        }
        if (!by_rows && (one->bytes > head->arena_bytes || one->offset > head->arena_bytes - one->bytes)) {
            return PILLION_IMAGE_BOUNDS;
        }
    }
    return PILLION_IMAGE_OK;
}

static pillion_image_status check_header(const header *head, const void *block, uint32_t size, const pillion_kernel_set *set) {
    if (((uintptr_t)block & 15u) != 0) {
        return PILLION_IMAGE_MISALIGNED;
    }
    if (size < sizeof(header) || head->magic != PILLION_IMAGE_MAGIC) {
        return PILLION_IMAGE_NO_IMAGE;
    }
    if (head->version != PILLION_IMAGE_VERSION) {
        return PILLION_IMAGE_FORMAT;
    }
    if (head->size > size || head->size < sizeof(header) || head->size % 16 != 0 || head->size > OFFSET) {
        return PILLION_IMAGE_TRUNCATED;
    }
    if (checksum((const uint8_t *)block + 16, head->size - 16) != head->crc) {
        return PILLION_IMAGE_DAMAGED;
    }
    if ((head->isas & ~set->isas) != 0) {
        return PILLION_IMAGE_CORE;
    }
    if (head->abi != set->abi) {
        return PILLION_IMAGE_ABI;
    }
    return head->alignment > 16 || head->arena_bytes > OFFSET || head->state_bytes > OFFSET || head->data > head->size
               ? PILLION_IMAGE_LAYOUT
               : PILLION_IMAGE_OK;
}

pillion_image_status pillion_image_open(const void *block, uint32_t size, const pillion_kernel_set *set, pillion_image *model) {
    const header *const head = block;
    checker check = {.head = head, .words = block, .set = set};
    pillion_image_status wrong = check_header(head, block, size, set);
    wrong = wrong ? wrong : check_buffers(head, block);
    wrong = wrong ? wrong : check_schedule(&check, head->reset, head->reset_words, 1);
    wrong = wrong ? wrong : check_schedule(&check, head->schedule, head->schedule_words, 0);
    if (wrong || check.rows != head->rows) {
        return wrong ? wrong : PILLION_IMAGE_SCHEDULE;
    }
    memset(model, 0, sizeof *model);
    model->block = block;
    model->set = set;
    model->bases[IN_BLOCK] = (uintptr_t)block;
    model->name = (const char *)block + head->name;
    model->core = (const char *)block + head->core;
    model->arena_bytes = head->arena_bytes;
    model->state_bytes = head->state_bytes;
    model->rows = head->rows;
    model->row_bytes = head->row_bytes;
    model->warm_up = head->warm_up;
    model->segments = head->segments;
    model->input_count = head->input_count;
    model->output_count = head->output_count;
    model->inputs = (const pillion_image_buffer *)(const void *)((const uint8_t *)block + head->buffers);
    model->outputs = model->inputs + head->input_count;
    return PILLION_IMAGE_OK;
}

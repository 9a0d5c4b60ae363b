@subroutines@
static void run_rows(uint8_t *base, @kept_parameter@pillion_feed *feed, pillion_rows *given) {
    void (*const done)(uint32_t op) = feed->after_op;
    uint32_t *const at = feed->at;
state|     (void)kept;
@resumed@}

static pillion_feed *feed_in(void *arena) {
    return (pillion_feed *)(void *)((uint8_t *)arena + @progress@);
}

state| static void keep_in(void *arena, void *state) {
state|     memcpy((uint8_t *)arena + @place@, &state, sizeof state);
state| }
state|
state| static uint8_t *kept_in(const void *arena) {
state|     uint8_t *kept;
state|     memcpy(&kept, (const uint8_t *)arena + @place@, sizeof kept);
state|     return kept;
state| }
state|
@begin@ {
    pillion_feed *const feed = feed_in(arena);
    feed->after_op = after_op != NULL ? after_op : no_one;
    feed->at[0] = 0;
    feed->taken = 0;
    feed->missing = @rows@;
state|     keep_in(arena, state);
begun|     uint8_t *const base = arena;
begun|     void (*const done)(uint32_t op) = feed->after_op;
begun_with_state|     uint8_t *const kept = state;
begun_with_state|     (void)kept;
begun|     (void)base;
begun|     (void)done;
@begun@}

uint32_t @model@_rows(void *arena, const void *rows, uint32_t count) {
    pillion_feed *const feed = feed_in(arena);
    pillion_rows given = {rows, count};
    if (feed->missing > 0) {
        run_rows(arena, @kept_argument@feed, &given);
    }
    return feed->missing;
}

uint32_t @model@_end(void *arena) {
    const uint32_t missing = feed_in(arena)->missing;
    if (missing > 0) {
        return missing;
    }
    uint8_t *const base = arena;
    void (*const done)(uint32_t op) = feed_in(arena)->after_op;
state|     uint8_t *const kept = kept_in(arena);
state|     (void)kept;
    (void)base;
    (void)done;
@rest@    return 0;
}

static const pillion_row_functions row_functions = {
    .rows = @rows@,
    .row_bytes = @row_bytes@,
    .@begin_field@ = @model@_begin,
    .hand_over = @model@_rows,
    .end = @model@_end,
};

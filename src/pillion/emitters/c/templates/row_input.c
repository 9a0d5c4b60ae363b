@subroutines@
static void run_rows(@pointer_parameters@@kept_parameter@pillion_feed *feed, pillion_rows *given) {
    void (*const done)(uint32_t op) = feed->after_op;
    uint32_t *const at = feed->at;
state|     (void)kept;
several| @unused@
@resumed@}

static pillion_feed *feed_in(@arena_parameter@) {
    return (pillion_feed *)(void *)((uint8_t *)@first_arena@ + @progress@);
}

state| static void keep_in(@arena_parameter@, void *state) {
state|     memcpy((uint8_t *)@first_arena@ + @place@, &state, sizeof state);
state| }
state|
state| static uint8_t *kept_in(@arena_parameter@) {
state|     uint8_t *kept;
state|     memcpy(&kept, (const uint8_t *)@first_arena@ + @place@, sizeof kept);
state|     return kept;
state| }
state|
@begin@ {
    pillion_feed *const feed = feed_in(@arena@);
    feed->after_op = after_op != NULL ? after_op : no_one;
    feed->at[0] = 0;
    feed->taken = 0;
    feed->missing = @rows@;
state|     keep_in(@arena@, state);
begun| @pointers@
begun|     void (*const done)(uint32_t op) = feed->after_op;
begun_with_state|     uint8_t *const kept = state;
begun_with_state|     (void)kept;
begun|     (void)done;
@begun@}

uint32_t @model@_rows(@arena_parameter@, const void *rows, uint32_t count) {
    pillion_feed *const feed = feed_in(@arena@);
    pillion_rows given = {rows, count};
    if (feed->missing > 0) {
        run_rows(@pointer_arguments@@kept_argument@feed, &given);
    }
    return feed->missing;
}

uint32_t @model@_end(@arena_parameter@) {
    const uint32_t missing = feed_in(@arena@)->missing;
    if (missing > 0) {
        return missing;
    }
@pointers@
    void (*const done)(uint32_t op) = feed_in(@arena@)->after_op;
state|     uint8_t *const kept = kept_in(@arena@);
state|     (void)kept;
    (void)done;
@rest@    return 0;
}

several| static void begin_in(void *arena, @state_parameter@void (*after_op)(uint32_t op)) {
several|     @model@_begin(arena, @state_argument@after_op);
several| }
several|
several| static uint32_t rows_in(void *arena, const void *rows, uint32_t count) {
several|     return @model@_rows(arena, rows, count);
several| }
several|
several| static uint32_t end_in(void *arena) {
several|     return @model@_end(arena);
several| }
several|
static const pillion_row_functions row_functions = {
    .rows = @rows@,
    .row_bytes = @row_bytes@,
    .@begin_field@ = @begin_function@,
    .hand_over = @rows_function@,
    .end = @end_function@,
};

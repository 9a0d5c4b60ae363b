/* `@input@` is not in the arena: its @rows@ rows are passed in order, as a camera delivers them, each with all of its
 * columns and channels. */
#define @MODEL@_ROWS @rows@
#define @MODEL@_ROW_BYTES @row_bytes@

/* Begins an inference.@other_inputs@ @the_arena@ must be aligned to 16 bytes; @is_bound@ in use until the end. `after_op`
 * may be NULL; it is called with the index of an op each time that it has computed some rows. */
@begin@;

/* Passes the next rows, any number of them, from outside the arena; the caller may reuse their memory afterwards. Returns the
 * number of rows that are still missing; rows beyond the last one are not read. */
uint32_t @model@_rows(@arena_parameter@, const void *rows, uint32_t count);

/* Ends an inference and returns 0; then the outputs are valid. If rows are missing, returns their number and does nothing. */
uint32_t @model@_end(@arena_parameter@);

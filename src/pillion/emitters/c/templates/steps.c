@functions@
void @model@_start(pillion_task *task, @arena_parameter@, @state_parameter@void (*after_op)(uint32_t op)) {
    task->arena = (uint8_t *)(uintptr_t)@arena@;
    task->state = @state@;
    task->after_op = after_op;
    task->at = 0;
    task->npu = NULL;
    task->is_queued = 0;
}

int @model@_step(pillion_task *task) {
@pointers@@statements@
    task->at = PILLION_TASK_DONE;
    return 1;
}

int @model@_done(const pillion_task *task) {
    return task->at == PILLION_TASK_DONE;
}

@run@ {
    pillion_task task;
    @model@_start(&task, @arena@, @state_argument@after_op);
    while (!@model@_step(&task)) {
        pillion_npu_sleep();
    }
}

/* A firmware may define these functions; several models share them: see pillion/task.h. */
__attribute__((weak)) uint32_t pillion_npu_queue[2];

__attribute__((weak)) void pillion_npu_sleep(void) {
#ifdef __arm__
    __asm volatile("wfe" ::: "memory");
#endif
}

__attribute__((weak)) void pillion_npu_wake(void) {
#ifdef __arm__
    __asm volatile("sev" ::: "memory");
#endif
}

/* SPDX-License-Identifier: Apache-2.0
 * The ExecuTorch backend `PillionBackend`: each delegate of a program is a program image (pillion_image.h) for the kernels that are linked
 * with it. A call takes the image's inputs, then its outputs, then perhaps the arena, and behind it the state, if the image has one. Without
 * an arena the runtime's temp allocator provides it. An image with NPU segments is followed by their code (PillionSegments.h). */
#include <cstring>
#include <new>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include "PillionSegments.h"
#include "pillion_image.h"
#include "pillion_kernels.h"

namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr size_t kAlignment = 16;

struct Handle {
    pillion_image model; /* first: the image hands over its address */
    bool has_run;
    pillion::Segments segments;
};

const char *reason_of(pillion_image_status status) {
    switch (status) {
    case PILLION_IMAGE_MISALIGNED:
        return "the program file or its planned memory is not aligned to 16 bytes";
    case PILLION_IMAGE_NO_IMAGE:
    case PILLION_IMAGE_TRUNCATED:
    case PILLION_IMAGE_DAMAGED:
        return "the image is damaged";
    case PILLION_IMAGE_FORMAT:
    case PILLION_IMAGE_ABI:
        return "the image is for another version of the kernels";
    case PILLION_IMAGE_CORE:
        return "the image is for another core: it needs instructions that this one does not have";
    case PILLION_IMAGE_KERNEL:
        return "the firmware lacks a kernel of the image";
    case PILLION_IMAGE_CALL:
        return "the image takes rows, which delegates do not";
    default:
        return "the image breaks the rules of its format";
    }
}

/* The bytes of an argument; NULL if it is no tensor of at least this size. */
uint8_t *bytes_of(const EValue *argument, size_t bytes) {
    if (!argument->isTensor() || argument->toTensor().nbytes() < bytes) {
        return nullptr;
    }
    return static_cast<uint8_t *>(argument->toTensor().mutable_data_ptr());
}

/* The memory of a call: the arguments behind the tensors, or the temp allocator's. */
struct Memory {
    uint8_t *arena, *state;
};

Result<Memory> memory_of(const pillion_image *model, BackendExecutionContext &context, Span<EValue *> arguments) {
    const size_t tensors = model->input_count + model->output_count, state = model->state_bytes > 0 ? 1 : 0;
    if (arguments.size() == tensors + 1 + state) {
        return Memory{bytes_of(arguments[tensors], model->arena_bytes), state ? bytes_of(arguments[tensors + 1], model->state_bytes) : nullptr};
    }
    if (arguments.size() != tensors || state) {
        return Error::InvalidArgument;
    }
    MemoryAllocator *const temporary = context.get_temp_allocator();
    void *const arena = temporary == nullptr ? nullptr : temporary->allocate(model->arena_bytes, kAlignment);
    if (arena == nullptr) {
        ET_LOG(Error, "PillionBackend: the temp allocator has no %u bytes for %s", static_cast<unsigned>(model->arena_bytes), model->name);
        return Error::MemoryAllocationFailed;
    }
    return Memory{static_cast<uint8_t *>(arena), nullptr};
}

void run_npu(const pillion_image *model, uint32_t segment, const void *const *inputs, void *const *outputs, void *) {
    const auto *const own = reinterpret_cast<const Handle *>(model);
    pillion::run_segment(const_cast<pillion::Segments *>(&own->segments), segment, inputs, outputs);
}

Error refuse_arguments(const pillion_image *model) {
    ET_LOG(Error, "PillionBackend: the program calls %s with other tensors than its image has", model->name);
    return Error::InvalidArgument;
}

#ifdef ET_EVENT_TRACER_ENABLED
/* The log of the run, and the end of the op before. Static, because after_op has no argument for it: one thread may trace at a time. */
struct {
    EventTracer *tracer;
    et_timestamp_t since;
} trace;

void log_op(uint32_t op) {
    const et_timestamp_t now = et_pal_current_ticks();
    executorch::runtime::event_tracer_log_profiling_delegate(trace.tracer, nullptr, op, trace.since, now);
    trace.since = et_pal_current_ticks();
}
#endif

/* The log of each op by its number, as the delegate map of the program names it; NULL without a log. */
void (*logger([[maybe_unused]] EventTracer *tracer))(uint32_t op) {
#ifdef ET_EVENT_TRACER_ENABLED
    if (tracer != nullptr) {
        trace = {tracer, et_pal_current_ticks()};
        return log_op;
    }
#endif
    return nullptr;
}

class PillionBackend final : public executorch::runtime::BackendInterface {
  public:
    bool is_available() const override { return true; }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed, ArrayRef<CompileSpec>) const override {
        pillion_image opened;
        pillion_image_status status =
            pillion_image_open(processed->data(), static_cast<uint32_t>(processed->size()), &pillion_kernels, &opened);
        if (status == PILLION_IMAGE_OK && opened.rows > 0) {
            status = PILLION_IMAGE_CALL;
        }
        if (status != PILLION_IMAGE_OK) {
            ET_LOG(Error, "PillionBackend: %s (status %d)", reason_of(status), static_cast<int>(status));
            return Error::DelegateInvalidCompatibility;
        }
        void *const place = context.get_runtime_allocator()->allocate(sizeof(Handle), alignof(Handle));
        if (place == nullptr) {
            return Error::MemoryAllocationFailed;
        }
        auto *const own = new (place) Handle{opened, false, {nullptr, nullptr, opened.segments, nullptr, Error::Ok}};
        if (opened.segments > 0) {
            own->model.npu = run_npu;
            const auto *const words = static_cast<const uint32_t *>(processed->data());
            const uint32_t image_bytes = words[2];
            const Error error = pillion::open_segments(context, words + image_bytes / 4, processed->size() - image_bytes, &own->segments);
            if (error != Error::Ok) {
                return error;
            }
        }
        return static_cast<DelegateHandle *>(own);
    }

    void destroy(DelegateHandle *handle) const override {
        const pillion::Segments &segments = static_cast<Handle *>(handle)->segments;
        for (uint32_t i = 0; i < segments.count; i++) {
            segments.backend->destroy(segments.all[i].handle);
        }
    }

    Error execute(BackendExecutionContext &context, DelegateHandle *handle, Span<EValue *> arguments) const override {
        auto *const own = static_cast<Handle *>(handle);
        pillion_image *const model = &own->model;
        const Result<Memory> memory = memory_of(model, context, arguments);
        if (!memory.ok()) {
            return memory.error() == Error::InvalidArgument ? refuse_arguments(model) : memory.error();
        }
        uint8_t *const arena = memory->arena;
        /* Tensors that were planned at their places in the arena are not copied. */
        for (size_t i = 0; i < model->input_count; i++) {
            const pillion_image_buffer &one = model->inputs[i];
            const uint8_t *const from = bytes_of(arguments[i], one.bytes);
            if (from == nullptr || arena == nullptr) {
                return refuse_arguments(model);
            }
            if (from != arena + one.offset) {
                std::memcpy(arena + one.offset, from, one.bytes);
            }
        }
        own->segments.context = &context;
        own->segments.error = Error::Ok;
        pillion_image_status status = own->has_run ? PILLION_IMAGE_OK : pillion_image_reset(model, memory->state);
        status = status != PILLION_IMAGE_OK ? status : pillion_image_run(model, arena, memory->state, logger(context.event_tracer()));
        if (status != PILLION_IMAGE_OK) {
            ET_LOG(Error, "PillionBackend: %s (status %d)", reason_of(status), static_cast<int>(status));
            return Error::InvalidArgument;
        }
        if (own->segments.error != Error::Ok) {
            return own->segments.error;
        }
        own->has_run = true;
        for (size_t i = 0; i < model->output_count; i++) {
            const pillion_image_buffer &one = model->outputs[i];
            uint8_t *const to = bytes_of(arguments[model->input_count + i], one.bytes);
            if (to == nullptr) {
                return refuse_arguments(model);
            }
            if (to != arena + one.offset) {
                std::memcpy(to, arena + one.offset, one.bytes);
            }
        }
        return Error::Ok;
    }
};

PillionBackend backend;

[[maybe_unused]] const Error registered = executorch::runtime::register_backend({"PillionBackend", &backend});

} // namespace

/* SPDX-License-Identifier: Apache-2.0
 * NPU segments of an image in ExecuTorch: each is a program of another delegate, which is in the firmware (EthosUBackend, NeutronBackend).
 * Their code follows the image: "PLN1", bytes, segments, offset of the delegate's name; for each segment offset and bytes of its code, offset of
 * its tensors, inputs, outputs; for each tensor type, rank, sizes. Offsets count from "PLN1", and code is aligned to 16 bytes. */
#ifndef PILLION_SEGMENTS_H
#define PILLION_SEGMENTS_H

#include <cstring>
#include <new>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include "pillion_image.h"

namespace pillion {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr uint32_t kMagic = 0x314e4c50u, kHeaderWords = 4, kEntryWords = 5, kMostRank = 8;
constexpr ScalarType kTypes[] = {ScalarType::Char, ScalarType::Byte, ScalarType::Short, ScalarType::Int, ScalarType::Float, ScalarType::Bool};

struct Segment {
    DelegateHandle *handle;
    FreeableBuffer code; /* delegates keep it */
    const uint32_t *tensors;
    uint32_t inputs, outputs;
};

/* The segments of an image; none if `backend` is NULL. */
struct Segments {
    const BackendInterface *backend;
    Segment *all;
    uint32_t count;
    BackendExecutionContext *context; /* of the run */
    Error error;                      /* the first one of the run */
};

/* Whether `count` words at a byte offset are inside a table. */
inline bool has_words(uint32_t bytes, uint32_t offset, uint64_t count) { return offset % 4 == 0 && offset <= bytes && 4 * count <= bytes - offset; }

/* Whether the tensors of a segment are as described above. */
inline bool has_tensors(const uint32_t *table, const uint32_t *entry) {
    uint32_t at = entry[2];
    if (entry[3] > PILLION_IMAGE_OPERANDS || entry[4] > PILLION_IMAGE_OPERANDS - entry[3]) {
        return false;
    }
    for (uint32_t i = 0; i < entry[3] + entry[4]; i++) {
        if (!has_words(table[1], at, 2) || table[at / 4] >= sizeof kTypes / sizeof *kTypes || table[at / 4 + 1] > kMostRank ||
            !has_words(table[1], at, 2ull + table[at / 4 + 1])) {
            return false;
        }
        at += 4 * (2 + table[at / 4 + 1]);
    }
    return true;
}

/* Whether a table of `size` bytes describes this number of segments. */
inline bool is_table(const uint32_t *table, size_t size, uint32_t segments) {
    if (size < 4 * kHeaderWords || table[0] != kMagic || table[1] > size || table[2] != segments ||
        !has_words(table[1], 4 * kHeaderWords, uint64_t{kEntryWords} * segments) || table[3] >= table[1] ||
        std::memchr(reinterpret_cast<const char *>(table) + table[3], 0, table[1] - table[3]) == nullptr) {
        return false;
    }
    for (uint32_t i = 0; i < segments; i++) {
        const uint32_t *const entry = table + kHeaderWords + kEntryWords * i;
        if (entry[0] % 16 != 0 || entry[0] > table[1] || entry[1] > table[1] - entry[0] || !has_tensors(table, entry)) {
            return false;
        }
    }
    return true;
}

/* Opens the segments of an image; their table begins `size` bytes before the end of the delegate's data. */
inline Error open_segments(BackendInitContext &context, const uint32_t *table, size_t size, Segments *segments) {
    if (!is_table(table, size, segments->count)) {
        ET_LOG(Error, "PillionBackend: the code of the NPU's segments is damaged");
        return Error::DelegateInvalidCompatibility;
    }
    const char *const name = reinterpret_cast<const char *>(table) + table[3];
    segments->backend = executorch::runtime::get_backend_class(name);
    if (segments->backend == nullptr) {
        ET_LOG(Error, "PillionBackend: the firmware lacks the delegate %s of the NPU", name);
        return Error::NotFound;
    }
    void *const place = context.get_runtime_allocator()->allocate(sizeof(Segment) * segments->count, alignof(Segment));
    if (place == nullptr) {
        return Error::MemoryAllocationFailed;
    }
    segments->all = static_cast<Segment *>(place);
    for (uint32_t i = 0; i < segments->count; i++) {
        const uint32_t *const entry = table + kHeaderWords + kEntryWords * i;
        Segment *const one = new (segments->all + i) Segment{nullptr, {table + entry[0] / 4, entry[1], nullptr}, table + entry[2] / 4, entry[3], entry[4]};
        const Result<DelegateHandle *> handle = segments->backend->init(context, &one->code, {});
        if (!handle.ok()) {
            return handle.error();
        }
        one->handle = *handle;
    }
    return Error::Ok;
}

/* Runs a segment on tensors at these addresses. */
inline void run_segment(Segments *segments, uint32_t number, const void *const *inputs, void *const *outputs) {
    static uint8_t order[kMostRank] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Segment &segment = segments->all[number];
    const uint32_t *at = segment.tensors, count = segment.inputs + segment.outputs;
    alignas(TensorImpl) unsigned char tensors[PILLION_IMAGE_OPERANDS][sizeof(TensorImpl)];
    EValue values[PILLION_IMAGE_OPERANDS], *arguments[PILLION_IMAGE_OPERANDS];
    for (uint32_t i = 0; i < count; i++) {
        void *const data = i < segment.inputs ? const_cast<void *>(inputs[i]) : outputs[i - segment.inputs];
        auto *const sizes = reinterpret_cast<TensorImpl::SizesType *>(const_cast<uint32_t *>(at + 2));
        values[i] = EValue(Tensor(new (tensors[i]) TensorImpl(kTypes[at[0]], static_cast<ssize_t>(at[1]), sizes, data, order)));
        arguments[i] = &values[i];
        at += 2 + at[1];
    }
    if (segments->error == Error::Ok) {
        segments->error = segments->backend->execute(*segments->context, segment.handle, Span<EValue *>(arguments, count));
    }
}

} // namespace pillion

#endif

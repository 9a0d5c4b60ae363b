/* SPDX-License-Identifier: Apache-2.0
 * Puts Pillion's operators and an interpreter of NPU segments into an ExecuTorch runtime. */
#include <cstddef>
#include <list>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include "limits.h"
#include "operators.h"

namespace pillion {

bool for_helium = false;

namespace {

using executorch::runtime::Error;
using executorch::runtime::Kernel;

std::mutex last_mutex;
std::string last_refusal;

const Kernel kKernels[] = {
    Kernel(kConv2d.name, kernel<kConv2d>),
    Kernel(kDepthwiseConv2d.name, kernel<kDepthwiseConv2d>),
    Kernel(kTransposeConv2d.name, kernel<kTransposeConv2d>),
    Kernel(kLinear.name, kernel<kLinear>),
    Kernel(kBatchMatmul.name, kernel<kBatchMatmul>),
    Kernel(kAdd.name, kernel<kAdd>),
    Kernel(kMul.name, kernel<kMul>),
    Kernel(kActivation.name, kernel<kActivation>),
    Kernel(kMinimum.name, kernel<kMinimum>),
    Kernel(kMaximum.name, kernel<kMaximum>),
    Kernel(kQuantize.name, kernel<kQuantize>),
    Kernel(kDequantize.name, kernel<kDequantize>),
    Kernel(kAvgPool2d.name, kernel<kAvgPool2d>),
    Kernel(kMaxPool2d.name, kernel<kMaxPool2d>),
    Kernel(kSoftmax.name, kernel<kSoftmax>),
    Kernel(kTranspose.name, kernel<kTranspose>),
    Kernel(kPad.name, kernel<kPad>),
#if RUNTIME_MINOR >= 5
    Kernel(kDiv.name, kernel<kDiv>),
    Kernel(kConv2dNhwc.name, kernel<kConv2dNhwc>),
    Kernel(kDepthwiseConv2dNhwc.name, kernel<kDepthwiseConv2dNhwc>),
    Kernel(kTransposeConv2dNhwc.name, kernel<kTransposeConv2dNhwc>),
    Kernel(kAvgPool2dNhwc.name, kernel<kAvgPool2dNhwc>),
    Kernel(kMaxPool2dNhwc.name, kernel<kMaxPool2dNhwc>),
#endif
};

}  // namespace

void remember(const char* name, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(last_mutex);
  last_refusal = std::string(name) + ": " + reason;
}

}  // namespace pillion

extern "C" {

/* A tensor of a delegate call. */
struct pillion_buffer {
  void* data;
  size_t bytes;
};

/* Runs the payload of a segment: inputs come first, then outputs. Zero is success. */
typedef int (*pillion_segment_runner)(const void* payload, size_t bytes, const pillion_buffer* buffers, size_t count);
}

namespace pillion {
namespace {

using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

pillion_segment_runner segment_runner = nullptr;

/* The NPU, played by whoever gave the runner. A payload stays where the program has it. */
class Npu final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override {
    return segment_runner != nullptr;
  }

  Result<DelegateHandle*> init(
      BackendInitContext& context, FreeableBuffer* processed, executorch::runtime::ArrayRef<CompileSpec>) const override {
    void* place = context.get_runtime_allocator()->allocate(sizeof(pillion_buffer), alignof(pillion_buffer));
    if (place == nullptr) {
      return Error::MemoryAllocationFailed;
    }
    return static_cast<DelegateHandle*>(new (place) pillion_buffer{const_cast<void*>(processed->data()), processed->size()});
  }

  Error execute(BackendExecutionContext&, DelegateHandle* handle, executorch::runtime::Span<EValue*> args) const override {
    const auto* payload = static_cast<const pillion_buffer*>(handle);
    std::vector<pillion_buffer> buffers;
    for (EValue* value : args) {
      if (!value->isTensor()) {
        remember("delegate", "operands and results are tensors");
        return Error::InvalidArgument;
      }
      const Tensor& t = value->toTensor();
      buffers.push_back({t.mutable_data_ptr(), t.nbytes()});
    }
    return segment_runner(payload->data, payload->bytes, buffers.data(), buffers.size()) == 0 ? Error::Ok : Error::DelegateInvalidCompatibility;
  }
};

Npu npu;

}  // namespace
}  // namespace pillion

extern "C" {

/* Registers all operators; the runtime's error code. To be called once in a process: a second time ends it. */
int pillion_register(pillion_segment_runner runner) {
  pillion::segment_runner = runner;
  return static_cast<int>(
      executorch::runtime::register_kernels({pillion::kKernels, sizeof pillion::kKernels / sizeof *pillion::kKernels}));
}

/* Plays the delegate of this name, unless the runtime has it; the runtime's error code. */
int pillion_register_delegate(const char* name) {
  if (executorch::runtime::get_backend_class(name) != nullptr) {
    return static_cast<int>(executorch::runtime::Error::Ok);
  }
  static std::list<std::string> names; /* the runtime keeps the pointer */
  names.emplace_back(name);
  return static_cast<int>(executorch::runtime::register_backend({names.back().c_str(), &pillion::npu}));
}

/* Says for which kind of core the next programs are. */
void pillion_set_helium(int has_helium) {
  pillion::for_helium = has_helium != 0;
}

/* Copies the last refusal and forgets it; its length. */
size_t pillion_last_refusal(char* to, size_t room) {
  const std::lock_guard<std::mutex> lock(pillion::last_mutex);
  const size_t length = pillion::last_refusal.copy(to, room);
  pillion::last_refusal.clear();
  return length;
}
}

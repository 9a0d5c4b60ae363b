/* SPDX-License-Identifier: Apache-2.0
 * A kernel's view of its call: arguments in the order of the schema, each of the requested type, and the reason of a refusal,
 * which the runtime itself cannot express. */
#pragma once

#include <cstdint>
#include <string>

#include <executorch/runtime/kernel/kernel_includes.h>

namespace pillion {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;
using Integers = executorch::aten::ArrayRef<int64_t>;

/* The reason why a kernel refuses a call. */
struct Refusal {
  std::string reason;
};

inline void want(bool holds, const std::string& reason) {
  if (!holds) {
    throw Refusal{reason};
  }
}

/* Arguments, read from the first to the last. Operators have their result on the stack twice, at the end. */
class Call {
 public:
  Call(Span<EValue*> stack, bool nhwc) : nhwc(nhwc), stack_(stack) {}

  /* Whether the sizes of images are in memory order: [n, h, w, c], contiguous. */
  const bool nhwc;

  size_t arguments() const {
    return stack_.size() < 2 ? 0 : stack_.size() - 2;
  }
  Tensor& tensor() {
    EValue& value = next();
    want(value.isTensor(), "a tensor is wanted" + place());
    return value.toTensor();
  }
  /* A tensor, or nothing. */
  Tensor* optional() {
    EValue& value = next();
    want(value.isTensor() || value.isNone(), "a tensor or none is wanted" + place());
    return value.isNone() ? nullptr : &value.toTensor();
  }
  int64_t integer() {
    EValue& value = next();
    want(value.isInt(), "an integer is wanted" + place());
    return value.toInt();
  }
  int32_t int32() {
    const int64_t number = integer();
    want(number >= INT32_MIN && number <= INT32_MAX, "a number of 32 bits is wanted" + place());
    return static_cast<int32_t>(number);
  }
  double real() {
    EValue& value = next();
    want(value.isDouble(), "a real number is wanted" + place());
    return value.toDouble();
  }
  bool flag() {
    EValue& value = next();
    want(value.isBool(), "true or false is wanted" + place());
    return value.toBool();
  }
  Integers integers(size_t count) {
    EValue& value = next();
    want(value.isIntList(), "a list of integers is wanted" + place());
    const Integers list = value.toIntList();
    want(count == 0 || list.size() == count, "a list of " + std::to_string(count) + " is wanted" + place());
    return list;
  }
  /* The result; nothing may come between it and the last argument. */
  Tensor& out() {
    want(next_ + 2 == stack_.size(), std::to_string(stack_.size()) + " values on the stack, read " + std::to_string(next_));
    return tensor();
  }

 private:
  EValue& next() {
    want(next_ < stack_.size(), "there are too few arguments");
    return *stack_[next_++];
  }
  std::string place() const {
    return " as argument " + std::to_string(next_);
  }

  Span<EValue*> stack_;
  size_t next_ = 0;
};

/* An operator under the name that programs call it by. */
struct Operator {
  const char* name;
  void (*body)(Call&);
  bool nhwc = false;
};

/* The last refusal, for whoever sees the runtime fail. */
void remember(const char* name, const std::string& reason);

template <const Operator& kOperator>
void kernel(KernelRuntimeContext& context, Span<EValue*> stack) {
  try {
    Call call(stack, kOperator.nhwc);
    kOperator.body(call);
  } catch (const Refusal& refusal) {
    remember(kOperator.name, refusal.reason);
    context.fail(executorch::runtime::Error::InvalidArgument);
  }
}

}  // namespace pillion

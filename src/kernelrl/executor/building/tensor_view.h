// What nearly all kernels use of tvm-ffi's headers: tensors and numbers as arguments, of functions that return nothing.
//
// The headers themselves take the compiler three times as long as a kernel. So a text is compiled with this first, and
// with them where it wants more. Everything here means what it means there (tvm/ffi/container/tensor.h, shape.h).
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace kernelrl_binding {
void read(const TVMFFIAny* args, int index, const char* name, DLTensor* value);
void read(const TVMFFIAny* args, int index, const char* name, bool* value);
void read(const TVMFFIAny* args, int index, const char* name, int* value);
void read(const TVMFFIAny* args, int index, const char* name, int64_t* value);
void read(const TVMFFIAny* args, int index, const char* name, float* value);
void read(const TVMFFIAny* args, int index, const char* name, double* value);
[[noreturn]] void out_of_bounds(int64_t index, int32_t num_dimensions);
[[noreturn]] void without_strides();
bool is_contiguous(const DLTensor& tensor);

using PlainCall = void (*)(const TVMFFIAny* args);
int guarded_plain(PlainCall call, const char* name, int num_parameters, const TVMFFIAny* args, int num_args,
                  TVMFFIAny* result);
}  // namespace kernelrl_binding

namespace tvm {
namespace ffi {
inline namespace light {  // other names for the linker than those of the classes that these stand for
class ShapeView {
 public:
  ShapeView() : data_(nullptr), size_(0) {}
  ShapeView(const int64_t* data, size_t size) : data_(data), size_(size) {}
  const int64_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](size_t index) const { return data_[index]; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t Product() const {
    int64_t product = 1;
    for (size_t i = 0; i < size_; ++i) product *= data_[i];
    return product;
  }

 private:
  const int64_t* data_;
  size_t size_;
};

class TensorView {
 public:
  TensorView(const DLTensor* tensor) : tensor_(*tensor) {}
  void* data_ptr() const { return tensor_.data; }
  DLDevice device() const { return tensor_.device; }
  DLDataType dtype() const { return tensor_.dtype; }
  int32_t ndim() const { return tensor_.ndim; }
  int32_t dim() const { return tensor_.ndim; }
  uint64_t byte_offset() const { return tensor_.byte_offset; }
  ShapeView shape() const { return ShapeView(tensor_.shape, static_cast<size_t>(tensor_.ndim)); }
  ShapeView sizes() const { return shape(); }
  int64_t numel() const { return shape().Product(); }
  ShapeView strides() const {
    if (tensor_.strides == nullptr && tensor_.ndim != 0) kernelrl_binding::without_strides();
    return ShapeView(tensor_.strides, static_cast<size_t>(tensor_.ndim));
  }
  int64_t size(int64_t index) const { return tensor_.shape[place(index)]; }
  int64_t stride(int64_t index) const { return tensor_.strides[place(index)]; }
  bool IsContiguous() const { return kernelrl_binding::is_contiguous(tensor_); }
  bool is_contiguous() const { return kernelrl_binding::is_contiguous(tensor_); }

 private:
  int64_t place(int64_t index) const {
    int64_t adjusted = index >= 0 ? index : tensor_.ndim + index;
    if (adjusted < 0 || adjusted >= tensor_.ndim) kernelrl_binding::out_of_bounds(index, tensor_.ndim);
    return adjusted;
  }
  DLTensor tensor_;
};
}  // namespace light
}  // namespace ffi
}  // namespace tvm

namespace kernelrl_binding {
template <typename T>
struct Argument {
  T value;
  Argument(const TVMFFIAny* args, int index, const char* name) { read(args, index, name, &value); }
};

template <>
struct Argument<tvm::ffi::TensorView> {
  DLTensor tensor;
  tvm::ffi::TensorView value;
  Argument(const TVMFFIAny* args, int index, const char* name)
      : value((read(args, index, name, &tensor), &tensor)) {}
};

template <typename... A, std::size_t... I>
void call_with(void (&function)(A...), const TVMFFIAny* args, const char* name, std::index_sequence<I...>) {
  function(Argument<std::remove_const_t<std::remove_reference_t<A>>>(args, I, name).value...);
}

template <typename... A>
void call(void (&function)(A...), const TVMFFIAny* args, const char* name) {
  call_with(function, args, name, std::index_sequence_for<A...>{});
}

template <typename... A>
constexpr int count(void (&)(A...)) {
  return sizeof...(A);
}
}  // namespace kernelrl_binding

#define KERNELRL_EXPORT(function)                                                                                    \
  static void kernelrl_call_##function(const TVMFFIAny* args) {                                                      \
    kernelrl_binding::call(function, args, #function);                                                               \
  }                                                                                                                  \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##function(void*, const TVMFFIAny* args, int32_t num_args,             \
                                                         TVMFFIAny* result) {                                        \
    return kernelrl_binding::guarded_plain(kernelrl_call_##function, #function, kernelrl_binding::count(function),   \
                                           args, num_args, result);                                                  \
  }

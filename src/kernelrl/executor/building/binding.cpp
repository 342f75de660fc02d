// The parts of binding.h and tensor_view.h that are the same for all kernels. Compiled once for each compiler.
#include <cstring>

namespace kernelrl_binding {
#define KERNELRL_HERE(T) template T argument<T>(const AnyView*, int, const char*);
KERNELRL_ARGUMENTS(KERNELRL_HERE)

int guarded(Call call, const char* name, int num_parameters, const TVMFFIAny* args, int num_args, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if (num_args != num_parameters) {
    TVM_FFI_THROW(TypeError) << "Mismatched number of arguments when calling: `" << name << "`. Expected "
                             << num_parameters << " but got " << num_args << " arguments";
  }
  call(reinterpret_cast<const AnyView*>(args), reinterpret_cast<Any*>(result));
  TVM_FFI_SAFE_CALL_END();
}

using PlainCall = void (*)(const TVMFFIAny* args);

int guarded_plain(PlainCall call, const char* name, int num_parameters, const TVMFFIAny* args, int num_args,
                  TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if (num_args != num_parameters) {
    TVM_FFI_THROW(TypeError) << "Mismatched number of arguments when calling: `" << name << "`. Expected "
                             << num_parameters << " but got " << num_args << " arguments";
  }
  call(args);
  *reinterpret_cast<Any*>(result) = nullptr;
  TVM_FFI_SAFE_CALL_END();
}

#define KERNELRL_READ(T)                                                            \
  void read(const TVMFFIAny* args, int index, const char* name, T* value) {         \
    *value = argument<T>(reinterpret_cast<const AnyView*>(args), index, name);      \
  }
KERNELRL_READ(bool)
KERNELRL_READ(int)
KERNELRL_READ(int64_t)
KERNELRL_READ(float)
KERNELRL_READ(double)

void read(const TVMFFIAny* args, int index, const char* name, DLTensor* value) {
  static_assert(sizeof(tvm::ffi::TensorView) == sizeof(DLTensor), "a view is the tensor that it shows");
  const tvm::ffi::TensorView view =
      argument<tvm::ffi::TensorView>(reinterpret_cast<const AnyView*>(args), index, name);
  std::memcpy(value, &view, sizeof(DLTensor));
}

[[noreturn]] void out_of_bounds(int64_t index, int32_t num_dimensions) {
  TVM_FFI_THROW(IndexError) << "Index " << index << " out of bounds for tensor with " << num_dimensions
                            << " dimensions";
}

[[noreturn]] void without_strides() { TVM_FFI_THROW(ValueError) << "the tensor has no strides"; }

bool is_contiguous(const DLTensor& tensor) { return tvm::ffi::IsContiguous(tensor); }
}  // namespace kernelrl_binding

// The parts of binding.h that are the same for all kernels. Compiled once for each compiler, beside the header.
#include "loader.h"

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
}  // namespace kernelrl_binding

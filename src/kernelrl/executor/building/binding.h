// How a module of tvm-ffi's loader is called: what TVM_FFI_DLL_EXPORT_TYPED_FUNC makes of each function, with the parts
// that are the same for all kernels (conversion of arguments, errors) compiled once, in binding.cpp.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace kernelrl_binding {
using tvm::ffi::Any;
using tvm::ffi::AnyView;

template <typename T>
__attribute__((noinline)) T argument(const AnyView* args, int index, const char* name) {
  if constexpr (std::is_same_v<T, AnyView> || std::is_same_v<T, Any>) {
    return T(args[index]);
  } else {
    std::optional<T> value = args[index].template try_cast<T>();
    if (!value.has_value()) {
      TVMFFIAny given = args[index].CopyToTVMFFIAny();
      TVM_FFI_THROW(TypeError) << "Mismatched type on argument #" << index << " when calling: `" << name
                               << "`. Expected `" << tvm::ffi::detail::Type2Str<T>::v() << "` but got `"
                               << tvm::ffi::TypeTraits<T>::GetMismatchTypeInfo(&given) << '`';
    }
    return *std::move(value);
  }
}

#define KERNELRL_ARGUMENTS(each)                                                                        \
  each(tvm::ffi::TensorView) each(tvm::ffi::Tensor) each(bool) each(int) each(int64_t) each(float)      \
  each(double) each(std::string) each(tvm::ffi::String) each(tvm::ffi::Optional<tvm::ffi::TensorView>)  \
  each(tvm::ffi::Optional<tvm::ffi::Tensor>)
#define KERNELRL_ELSEWHERE(T) extern template T argument<T>(const AnyView*, int, const char*);
KERNELRL_ARGUMENTS(KERNELRL_ELSEWHERE)

using Call = void (*)(const AnyView* args, Any* result);

int guarded(Call call, const char* name, int num_parameters, const TVMFFIAny* args, int num_args, TVMFFIAny* result);

template <typename T>
using Bare = std::remove_const_t<std::remove_reference_t<T>>;

template <typename R, typename... A, std::size_t... I>
void call_with(R (&function)(A...), const AnyView* args, Any* result, const char* name, std::index_sequence<I...>) {
  if constexpr (std::is_void_v<R>) {
    function(argument<Bare<A>>(args, I, name)...);
  } else {
    *result = R(function(argument<Bare<A>>(args, I, name)...));
  }
}

template <typename R, typename... A>
void call(R (&function)(A...), const AnyView* args, Any* result, const char* name) {
  call_with(function, args, result, name, std::index_sequence_for<A...>{});
}

template <typename R, typename... A>
int count(R (&)(A...)) {
  return sizeof...(A);
}

template <typename F>  // an object with operator()
int count(const F&) {
  return tvm::ffi::detail::FunctionInfo<std::decay_t<F>>::num_args;
}

template <typename F>
void call(const F& function, const AnyView* args, Any* result, const char* name) {
  using Info = tvm::ffi::detail::FunctionInfo<std::decay_t<F>>;
  const std::string named(name);
  tvm::ffi::detail::unpack_call<typename Info::RetType>(std::make_index_sequence<Info::num_args>{}, &named, function,
                                                        args, Info::num_args, result);
}
}  // namespace kernelrl_binding

#define KERNELRL_EXPORT(function)                                                                                  \
  static void kernelrl_call_##function(const tvm::ffi::AnyView* args, tvm::ffi::Any* result) {                     \
    kernelrl_binding::call(function, args, result, #function);                                                     \
  }                                                                                                                \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##function(void*, const TVMFFIAny* args, int32_t num_args,           \
                                                         TVMFFIAny* result) {                                      \
    return kernelrl_binding::guarded(kernelrl_call_##function, #function, kernelrl_binding::count(function), args, \
                                     num_args, result);                                                            \
  }

// What nearly all kernels use of torch's headers: tensors, the functions that make them, and Python's arguments.
//
// torch/extension.h declares networks, optimisers and data sets, too, and the compiler goes through all of what they
// instantiate for each text. So a text is compiled with this first, and with that where it wants more.
#include <ATen/Parallel.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>
#include <torch/utils.h>

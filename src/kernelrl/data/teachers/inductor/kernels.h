// C++ that the Inductor teacher's candidates are made of: the kernels that stand in for a library's (one template each:
// blocks of sums in registers over packed operands for products and convolutions, a line per iteration for scans), the
// types that they and Inductor's kernels share, and what Inductor's kernels use of its own header, without vector types.
//
// A candidate gets the parts that it uses. Each begins with `//: NAMES`, a pattern of the names that show the need.
#include <omp.h>
#include <tvm/ffi/container/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

//: TensorView
using tvm::ffi::TensorView;

//: half
struct half {
  _Float16 stored = 0;
  half() = default;
  half(float value) : stored(static_cast<_Float16>(value)) {}
  operator float() const { return static_cast<float>(stored); }
};

//: bfloat16
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  bfloat16(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    bits = value != value ? 0x7fc0 : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;  // to nearest, ties to even
  }
  operator float() const {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
};

//: Sum
template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<sizeof(T) == 8, double, float>>;

//: multiply
// Stride of an axis, counted from the last; 0 where the tensor is broadcast along it.
inline int64_t step(const TensorView& t, int64_t from_last) {
  const int64_t axis = t.ndim() - 1 - from_last;
  return axis < 0 || t.size(axis) == 1 ? 0 : t.stride(axis);
}

// alpha * a @ b + beta * bias in blocks of 4 x 16 sums that stay in registers; b is packed into panels of 16 columns.
template <typename T>
void multiply(TensorView a_, TensorView b_, TensorView out_, const TensorView* bias_ = nullptr, Sum<T> alpha = 1,
              Sum<T> beta = 0) {
  constexpr int64_t ROWS = 4, COLUMNS = 16;
  const T* a = static_cast<const T*>(a_.data_ptr());
  const T* b = static_cast<const T*>(b_.data_ptr());
  const T* bias = bias_ ? static_cast<const T*>(bias_->data_ptr()) : nullptr;
  T* out = static_cast<T*>(out_.data_ptr());
  const int64_t axes = out_.ndim(), batch = axes == 3 ? out_.size(0) : 1;
  const int64_t m = a_.size(axes - 2), k = a_.size(axes - 1), n = b_.size(axes - 1);
  const int64_t a0 = step(a_, 2), a1 = step(a_, 1), a2 = step(a_, 0), b0 = step(b_, 2), b1 = step(b_, 1);
  const int64_t b2 = step(b_, 0), o0 = step(out_, 2), o1 = step(out_, 1), o2 = step(out_, 0);
  const int64_t c0 = bias ? step(*bias_, 2) : 0, c1 = bias ? step(*bias_, 1) : 0, c2 = bias ? step(*bias_, 0) : 0;
  const int64_t panels = (n + COLUMNS - 1) / COLUMNS, blocks = (m + ROWS - 1) / ROWS;
  std::unique_ptr<Sum<T>[]> packed(new Sum<T>[batch * panels * k * COLUMNS]);
  #pragma omp parallel
  {
    #pragma omp for collapse(2)
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t p = 0; p < panels; ++p) {
        Sum<T>* to = &packed[(i * panels + p) * k * COLUMNS];
        for (int64_t r = 0; r < k; ++r) {
          for (int64_t x = 0; x < COLUMNS; ++x) {
            const int64_t column = p * COLUMNS + x;
            to[r * COLUMNS + x] = column < n ? static_cast<Sum<T>>(b[i * b0 + r * b1 + column * b2]) : Sum<T>(0);
          }
        }
      }
    }
    std::unique_ptr<Sum<T>[]> rows(new Sum<T>[k * ROWS]);
    #pragma omp for collapse(2)
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t block = 0; block < blocks; ++block) {
        for (int64_t r = 0; r < k; ++r) {
          for (int64_t y = 0; y < ROWS; ++y) {
            const int64_t row = block * ROWS + y;
            rows[r * ROWS + y] = row < m ? static_cast<Sum<T>>(a[i * a0 + row * a1 + r * a2]) : Sum<T>(0);
          }
        }
        for (int64_t p = 0; p < panels; ++p) {
          const Sum<T>* from = &packed[(i * panels + p) * k * COLUMNS];
          Sum<T> sums[ROWS][COLUMNS] = {};
          for (int64_t r = 0; r < k; ++r) {
            for (int64_t y = 0; y < ROWS; ++y) {
              #pragma omp simd
              for (int64_t x = 0; x < COLUMNS; ++x) sums[y][x] += rows[r * ROWS + y] * from[r * COLUMNS + x];
            }
          }
          for (int64_t y = 0; y < std::min(ROWS, m - block * ROWS); ++y) {
            for (int64_t x = 0; x < std::min(COLUMNS, n - p * COLUMNS); ++x) {
              const int64_t row = block * ROWS + y, column = p * COLUMNS + x;
              Sum<T> value = alpha * sums[y][x];
              if (bias && beta != 0) value += beta * static_cast<Sum<T>>(bias[i * c0 + row * c1 + column * c2]);
              out[i * o0 + row * o1 + column * o2] = static_cast<T>(value);
            }
          }
        }
      }
    }
  }
}

//: convolve
struct Axes {
  int64_t of[3];
  int64_t operator[](int64_t i) const { return of[i]; }
};

// Depth, height and width; a missing axis has one place.
inline Axes sizes(const TensorView& t) {
  const int64_t n = t.ndim();
  return {{n > 4 ? t.size(n - 3) : 1, n > 3 ? t.size(n - 2) : 1, t.size(n - 1)}};
}

inline Axes strides(const TensorView& t) {
  const int64_t n = t.ndim();
  return {{n > 4 ? t.stride(n - 3) : 0, n > 3 ? t.stride(n - 2) : 0, t.stride(n - 1)}};
}

// Padded input and weights are packed; then blocks of channels x 16 columns of sums stay in registers. A transposed
// convolution is a plain one over the input spread out by its stride, with the window turned round.
template <typename T, int64_t CHANNELS>
void convolve(TensorView x_, TensorView weight_, const TensorView* bias_, TensorView out_, Axes stride, Axes padding,
              Axes dilation, int64_t groups, bool transposed) {
  constexpr int64_t COLUMNS = 16;
  const T* x = static_cast<const T*>(x_.data_ptr());
  const T* weight = static_cast<const T*>(weight_.data_ptr());
  const T* bias = bias_ ? static_cast<const T*>(bias_->data_ptr()) : nullptr;
  T* out = static_cast<T*>(out_.data_ptr());
  const Axes in = sizes(x_), in_at = strides(x_), window = sizes(weight_), window_at = strides(weight_);
  const Axes to = sizes(out_), to_at = strides(out_);
  const int64_t batch = x_.size(0), all = x_.size(1), channels = all / groups, filters = out_.size(1) / groups;
  const int64_t taps = window[0] * window[1] * window[2], blocks = (filters + CHANNELS - 1) / CHANNELS;
  int64_t spread[3], move[3], before[3], padded[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = dilation[i] * (window[i] - 1);
    spread[i] = transposed ? stride[i] : 1;
    move[i] = transposed ? 1 : stride[i];
    before[i] = transposed ? reach - padding[i] : padding[i];
    padded[i] = (to[i] - 1) * move[i] + reach + 1;
  }
  padded[2] += COLUMNS * move[2];  // the last block of a row reads past its end
  const int64_t volume = padded[0] * padded[1] * padded[2];
  std::unique_ptr<Sum<T>[]> input(new Sum<T>[batch * all * volume]);
  std::unique_ptr<Sum<T>[]> filter(new Sum<T>[groups * blocks * channels * taps * CHANNELS]);
  #pragma omp parallel
  {
    #pragma omp for collapse(2)
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < all; ++c) {
        Sum<T>* plane = &input[(n * all + c) * volume];
        std::fill(plane, plane + volume, Sum<T>(0));
        const T* from = x + n * x_.stride(0) + c * x_.stride(1);
        for (int64_t d = 0; d < in[0]; ++d) {
          const int64_t z = d * spread[0] + before[0];
          for (int64_t h = 0; h < in[1]; ++h) {
            const int64_t y = h * spread[1] + before[1];
            if (z < 0 || z >= padded[0] || y < 0 || y >= padded[1]) continue;
            for (int64_t w = 0; w < in[2]; ++w) {
              const int64_t v = w * spread[2] + before[2];
              if (v < 0 || v >= padded[2]) continue;
              plane[(z * padded[1] + y) * padded[2] + v] =
                  static_cast<Sum<T>>(from[d * in_at[0] + h * in_at[1] + w * in_at[2]]);
            }
          }
        }
      }
    }
    #pragma omp for collapse(2)
    for (int64_t b = 0; b < groups * blocks; ++b) {
      for (int64_t c = 0; c < channels; ++c) {
        Sum<T>* packed = &filter[(b * channels + c) * taps * CHANNELS];
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t turned = transposed ? taps - 1 - tap : tap;
          const int64_t place = turned / (window[1] * window[2]) * window_at[0] +
              turned / window[2] % window[1] * window_at[1] + turned % window[2] * window_at[2];
          for (int64_t j = 0; j < CHANNELS; ++j) {
            const int64_t f = b % blocks * CHANNELS + j, g = b / blocks;
            const int64_t rows = transposed ? g * channels + c : g * filters + f, columns = transposed ? f : c;
            packed[tap * CHANNELS + j] = f >= filters ? Sum<T>(0) :
                static_cast<Sum<T>>(weight[rows * weight_.stride(0) + columns * weight_.stride(1) + place]);
          }
        }
      }
    }
    #pragma omp for collapse(3)
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t b = 0; b < groups * blocks; ++b) {
        for (int64_t row = 0; row < to[0] * to[1]; ++row) {
          const int64_t d = row / to[1], h = row % to[1], g = b / blocks, first = b % blocks * CHANNELS;
          for (int64_t start = 0; start < to[2]; start += COLUMNS) {
            Sum<T> sums[CHANNELS][COLUMNS] = {};
            const Sum<T>* factor = &filter[b * channels * taps * CHANNELS];
            for (int64_t c = 0; c < channels; ++c) {
              const Sum<T>* plane = &input[(n * all + g * channels + c) * volume];
              for (int64_t kd = 0; kd < window[0]; ++kd) {
                for (int64_t kh = 0; kh < window[1]; ++kh) {
                  const int64_t z = d * move[0] + kd * dilation[0], y = h * move[1] + kh * dilation[1];
                  const Sum<T>* line = plane + (z * padded[1] + y) * padded[2] + start * move[2];
                  for (int64_t kw = 0; kw < window[2]; ++kw, factor += CHANNELS) {
                    const Sum<T>* from = line + kw * dilation[2];
                    Sum<T> values[COLUMNS];
                    if (move[2] == 1) std::copy(from, from + COLUMNS, values);
                    else for (int64_t i = 0; i < COLUMNS; ++i) values[i] = from[i * move[2]];
                    for (int64_t j = 0; j < CHANNELS; ++j) {
                      #pragma omp simd
                      for (int64_t i = 0; i < COLUMNS; ++i) sums[j][i] += factor[j] * values[i];
                    }
                  }
                }
              }
            }
            for (int64_t j = 0; j < std::min(CHANNELS, filters - first); ++j) {
              const int64_t f = g * filters + first + j;
              const Sum<T> base = bias ? static_cast<Sum<T>>(bias[f * bias_->stride(0)]) : Sum<T>(0);
              T* line = out + n * out_.stride(0) + f * out_.stride(1) + d * to_at[0] + h * to_at[1];
              for (int64_t i = 0; i < std::min(COLUMNS, to[2] - start); ++i) {
                line[(start + i) * to_at[2]] = static_cast<T>(sums[j][i] + base);
              }
            }
          }
        }
      }
    }
  }
}

//: Running|add|times|add_exponentials
template <typename T>
using Running = std::conditional_t<std::is_integral_v<T>, int64_t, double>;  // its errors would add up along the line

template <typename T>
Running<T> add(Running<T> a, Running<T> b) {
  return a + b;
}
template <typename T>
Running<T> times(Running<T> a, Running<T> b) {
  return a * b;
}
template <typename T>
double add_exponentials(double a, double b) {
  const double low = std::min(a, b), high = std::max(a, b);
  if (low == high && std::isinf(low)) return low;
  return a != a || b != b ? a + b : high + std::log1p(std::exp(low - high));
}

//: each_line
// Calls work(offset in x, offset in out) for each line along an axis.
template <typename Work>
void each_line(const TensorView& x, const TensorView& out, int64_t dim, Work work) {
  int64_t lines = 1;
  for (int64_t axis = 0; axis < x.ndim(); ++axis) lines *= axis == dim ? 1 : x.size(axis);
  #pragma omp parallel for
  for (int64_t line = 0; line < lines; ++line) {
    int64_t rest = line, from = 0, to = 0;
    for (int64_t axis = x.ndim() - 1; axis >= 0; --axis) {
      if (axis == dim) continue;
      from += rest % x.size(axis) * x.stride(axis);
      to += rest % x.size(axis) * out.stride(axis);
      rest /= x.size(axis);
    }
    work(from, to);
  }
}

//: scan
template <typename T, typename O, typename Combine>
void scan(TensorView x_, TensorView out_, int64_t dim, Combine combine) {
  dim += dim < 0 ? x_.ndim() : 0;
  const T* x = static_cast<const T*>(x_.data_ptr());
  O* out = static_cast<O*>(out_.data_ptr());
  const int64_t length = x_.size(dim), stride = x_.stride(dim), out_stride = out_.stride(dim);
  each_line(x_, out_, dim, [=](int64_t from, int64_t to) {
    Running<O> total = 0;
    for (int64_t i = 0; i < length; ++i) {
      const O value = static_cast<O>(x[from + i * stride]);
      total = i ? combine(total, value) : value;
      out[to + i * out_stride] = static_cast<O>(total);
    }
  });
}

//: extreme
// The largest (or smallest) so far and where it stands; the first NaN stays, of equal values the last counts.
template <typename T, bool LARGEST>
void extreme(TensorView x_, const TensorView* values_, const TensorView* indices_, int64_t dim) {
  dim += dim < 0 ? x_.ndim() : 0;
  const TensorView& out_ = values_ ? *values_ : *indices_;
  const T* x = static_cast<const T*>(x_.data_ptr());
  T* values = values_ ? static_cast<T*>(values_->data_ptr()) : nullptr;
  int64_t* indices = indices_ ? static_cast<int64_t*>(indices_->data_ptr()) : nullptr;
  const int64_t length = x_.size(dim), stride = x_.stride(dim), out_stride = out_.stride(dim);
  each_line(x_, out_, dim, [=](int64_t from, int64_t to) {
    T best = x[from];
    int64_t found = 0;
    for (int64_t i = 0; i < length; ++i) {
      const T value = x[from + i * stride];
      if (best == best && (value != value || (LARGEST ? value >= best : value <= best))) {
        best = value;
        found = i;
      }
      if (values) values[to + i * out_stride] = best;
      if (indices) indices[to + i * out_stride] = found;
    }
  });
}

//: max_propagate_nan
template <typename T>
inline T max_propagate_nan(T a, T b) {
  return a > b || a != a ? a : b;
}
#pragma omp declare reduction(max_nan : float : omp_out = max_propagate_nan(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)

//: min_propagate_nan
template <typename T>
inline T min_propagate_nan(T a, T b) {
  return a < b || a != a ? a : b;
}
#pragma omp declare reduction(min_nan : float : omp_out = min_propagate_nan(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)

//: floor_div|floor_divide_integral
template <typename T, typename U>
inline auto floor_div(T a, U b) {
  auto q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <typename T, typename U>
inline auto floor_divide_integral(T a, U b) {
  return floor_div(a, b);
}

//: mod|remainder_integral
template <typename T, typename U>
inline auto mod(T a, U b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  else return a % b;
}
template <typename T>
inline T remainder_integral(T a, T b) {
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

//: Welford
template <typename T>
struct Welford {
  T mean = 0, m2 = 0, weight = 0;
};
template <typename T>
struct WelfordHelper {};
template <typename T, typename V, typename... H>
inline Welford<T> welford_combine(const Welford<T>& a, V value, H...) {
  T weight = a.weight + 1, delta = value - a.mean, mean = a.mean + delta / weight;
  return {mean, a.m2 + delta * (value - mean), weight};
}
template <typename T>
inline Welford<T> welford_combine(const Welford<T>& a, const Welford<T>& b) {
  if (a.weight == 0) return b;
  if (b.weight == 0) return a;
  T weight = a.weight + b.weight, delta = b.mean - a.mean, share = b.weight / weight;
  return {a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.weight * share, weight};
}
template <typename T>
inline Welford<T> welford_combine(const Welford<T>& a, WelfordHelper<T>*) {
  return a;
}

//: IndexValue
template <typename T>
struct IndexValue {
  int64_t index = 0;
  T value = 0;
};
template <typename T>
inline IndexValue<T> argmax_combine(const IndexValue<T>& a, T value, int64_t index) {
  bool first = a.index < index, keep = a.value == value ? first : a.value > value;
  if (a.value != a.value) keep = value == value || first;
  return keep ? a : IndexValue<T>{index, value};
}
template <typename T>
inline IndexValue<T> argmin_combine(const IndexValue<T>& a, T value, int64_t index) {
  bool first = a.index < index, keep = a.value == value ? first : a.value < value;
  if (a.value != a.value) keep = value == value || first;
  return keep ? a : IndexValue<T>{index, value};
}
template <typename T>
inline IndexValue<T> argmax_combine(const IndexValue<T>& a, const IndexValue<T>& b) {
  return argmax_combine(a, b.value, b.index);
}
template <typename T>
inline IndexValue<T> argmin_combine(const IndexValue<T>& a, const IndexValue<T>& b) {
  return argmin_combine(a, b.value, b.index);
}

//: atomic_add
template <typename T>
inline void atomic_add(T* address, T value) {
  #pragma omp atomic
  *address += value;
}

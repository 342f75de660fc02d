"""What Inductor's C++ kernels use of its own header, written anew without vector types."""

from __future__ import annotations

HELPERS = (
    (
        "max_propagate_nan",
        """\
template <typename T>
inline T max_propagate_nan(T a, T b) {
  return a > b || a != a ? a : b;
}
#pragma omp declare reduction(max_nan : float : omp_out = max_propagate_nan(omp_out, omp_in)) \\
    initializer(omp_priv = omp_orig)
""",
    ),
    (
        "min_propagate_nan",
        """\
template <typename T>
inline T min_propagate_nan(T a, T b) {
  return a < b || a != a ? a : b;
}
#pragma omp declare reduction(min_nan : float : omp_out = min_propagate_nan(omp_out, omp_in)) \\
    initializer(omp_priv = omp_orig)
""",
    ),
    (
        "floor_div|floor_divide_integral",
        """\
template <typename T, typename U>
inline auto floor_div(T a, U b) {
  auto q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <typename T, typename U>
inline auto floor_divide_integral(T a, U b) {
  return floor_div(a, b);
}
""",
    ),
    (
        "mod|remainder_integral",
        """\
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
""",
    ),
    (
        "Welford",
        """\
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
""",
    ),
    (
        "IndexValue",
        """\
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
""",
    ),
    (
        "atomic_add",
        """\
template <typename T>
inline void atomic_add(T* address, T value) {
  #pragma omp atomic
  *address += value;
}
""",
    ),
)
"""By the names that show the need (a pattern): the text."""

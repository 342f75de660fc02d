// Vector intrinsics that access memory by a mask, by an index, past the cache, by half a vector or of their own kind, one
// element after the other.
//
// The compiler's instruments see no memory in the instructions that these stand for. What is accessed, and what comes of
// it, is the same. This text stands before a candidate's in builds that find mistakes (watched_vectors.py).
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace kernelrl_watched {
constexpr uint64_t ALL = ~uint64_t{0};

template <class Lane, class Vector>
constexpr int lanes_of = sizeof(Vector) / sizeof(Lane);

template <class Lane, class Vector>
[[gnu::always_inline]] inline Lane lane(const Vector& vector, int i) {
  Lane value;
  __builtin_memcpy(&value, reinterpret_cast<const char*>(&vector) + i * sizeof(Lane), sizeof(Lane));
  return value;
}

template <class Lane>
struct Place {  // as these instructions do, it asks for no alignment
  typedef volatile Lane type __attribute__((aligned(1), may_alias));
};

template <class Lane, class Vector>
[[gnu::always_inline]] inline void read(Vector& vector, int i, const void* from, int64_t offset) {
  const Lane value = *reinterpret_cast<const typename Place<Lane>::type*>(static_cast<const char*>(from) + offset);
  __builtin_memcpy(reinterpret_cast<char*>(&vector) + i * sizeof(Lane), &value, sizeof(Lane));
}

template <class Lane, class Vector>
[[gnu::always_inline]] inline void write(const Vector& vector, int i, void* to, int64_t offset) {
  *reinterpret_cast<typename Place<Lane>::type*>(static_cast<char*>(to) + offset) = lane<Lane>(vector, i);
}

// A mask is the bits of a number, or the signs of lanes that are as wide as those of the data.
template <class Lane, class Mask>
[[gnu::always_inline]] inline bool is_chosen(const Mask& mask, int i) {
  if constexpr (sizeof(Mask) <= sizeof(uint64_t)) {
    return static_cast<uint64_t>(mask) >> i & 1;
  } else if constexpr (sizeof(Lane) == sizeof(int32_t)) {
    return lane<int32_t>(mask, i) < 0;
  } else {
    return lane<int64_t>(mask, i) < 0;
  }
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector mask_load(Vector before, Mask mask, const void* from) {
  for (int i = 0; i < lanes_of<Lane, Vector>; ++i)
    if (is_chosen<Lane>(mask, i)) read<Lane>(before, i, from, i * sizeof(Lane));
  return before;
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector maskz_load(Mask mask, const void* from) {
  return mask_load<Lane>(Vector{}, mask, from);
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector maskload(const void* from, Mask mask) {
  return mask_load<Lane>(Vector{}, mask, from);
}

template <class Lane, class Vector>
[[gnu::always_inline]] inline Vector stream_load(const void* from) {
  return mask_load<Lane>(Vector{}, ALL, from);
}

template <class Part, class Vector>
[[gnu::always_inline]] inline Vector broadcast(const void* from) {
  Vector result;
  for (int i = 0; i < lanes_of<Part, Vector>; ++i) read<Part>(result, i, from, 0);
  return result;
}

template <class Lane, class Mask, class Vector>
[[gnu::always_inline]] inline void mask_store(void* to, Mask mask, Vector values) {
  for (int i = 0; i < lanes_of<Lane, Vector>; ++i)
    if (is_chosen<Lane>(mask, i)) write<Lane>(values, i, to, i * sizeof(Lane));
}

template <class Lane, class Vector>
[[gnu::always_inline]] inline void stream(void* to, Vector values) {
  mask_store<Lane>(to, ALL, values);
}

template <class Number>
[[gnu::always_inline]] inline void stream_number(void* to, Number value) {
  write<Number>(value, 0, to, 0);
}

// The other elements are zero.
template <class Lane, class Vector>
[[gnu::always_inline]] inline Vector load_first(const void* from) {
  return mask_load<Lane>(Vector{}, 1, from);
}

template <class Lane, class Vector>
[[gnu::always_inline]] inline void store_first(void* to, Vector values) {
  mask_store<Lane>(to, 1, values);
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector mask_load_first(Vector before, Mask mask, const void* from) {
  return mask_load<Lane>(load_first<Lane, Vector>(&before), mask & 1, from);
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector maskz_load_first(Mask mask, const void* from) {
  return mask_load_first<Lane>(Vector{}, mask, from);
}

template <class Lane, class Mask, class Vector>
[[gnu::always_inline]] inline void mask_store_first(void* to, Mask mask, Vector values) {
  mask_store<Lane>(to, mask & 1, values);
}

template <int number, class Vector>
[[gnu::always_inline]] inline Vector load_half(Vector before, const void* from) {
  read<int64_t>(before, number, from, 0);
  return before;
}

template <int number, class Vector>
[[gnu::always_inline]] inline void store_half(void* to, Vector values) {
  write<int64_t>(values, number, to, 0);
}

template <class Vector>
[[gnu::always_inline]] inline void mask_move(Vector values, Vector mask, void* to) {
  for (int i = 0; i < lanes_of<int8_t, Vector>; ++i)
    if (lane<int8_t>(mask, i) < 0) write<int8_t>(values, i, to, i);
}

// Numbers beyond what a narrow one holds become the nearest one that it holds, if it `saturates`.
template <class Wide, class Narrow, bool saturates, class Mask, class Vector>
[[gnu::always_inline]] inline void mask_narrow(void* to, Mask mask, Vector values) {
  using Limits = std::numeric_limits<Narrow>;
  for (int i = 0; i < lanes_of<Wide, Vector>; ++i) {
    if (!is_chosen<Wide>(mask, i)) continue;
    Wide value = lane<Wide>(values, i);
    if constexpr (saturates) value = std::clamp(value, Wide{Limits::min()}, Wide{Limits::max()});
    write<Narrow>(static_cast<Narrow>(value), 0, to, i * sizeof(Narrow));
  }
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector mask_expand(Vector before, Mask mask, const void* from) {
  for (int i = 0, next = 0; i < lanes_of<Lane, Vector>; ++i)
    if (is_chosen<Lane>(mask, i)) read<Lane>(before, i, from, next++ * sizeof(Lane));
  return before;
}

template <class Lane, class Vector, class Mask>
[[gnu::always_inline]] inline Vector maskz_expand(Mask mask, const void* from) {
  return mask_expand<Lane>(Vector{}, mask, from);
}

template <class Lane, class Mask, class Vector>
[[gnu::always_inline]] inline void mask_compress(void* to, Mask mask, Vector values) {
  for (int i = 0, next = 0; i < lanes_of<Lane, Vector>; ++i)
    if (is_chosen<Lane>(mask, i)) write<Lane>(values, i, to, next++ * sizeof(Lane));
}

// AVX2 has the mask of a gather behind the indices, and AVX-512 before them; without one AVX2 begins with the memory.
template <class Lane, class Index, class Vector, class Mask, class Indices>
[[gnu::always_inline]] inline Vector mask_gather_512(Vector before, Mask mask, Indices indices, const void* from, int scale) {
  Vector result{};  // without an index an element is zero
  for (int i = 0; i < std::min(lanes_of<Lane, Vector>, lanes_of<Index, Indices>); ++i)
    if (is_chosen<Lane>(mask, i))
      read<Lane>(result, i, from, int64_t{lane<Index>(indices, i)} * scale);
    else
      read<Lane>(result, i, &before, i * sizeof(Lane));
  return result;
}

template <class Lane, class Index, class Vector, class Indices>
[[gnu::always_inline]] inline Vector gather_512(Indices indices, const void* from, int scale) {
  return mask_gather_512<Lane, Index>(Vector{}, ALL, indices, from, scale);
}

template <class Lane, class Index, class Vector, class Mask, class Indices>
[[gnu::always_inline]] inline Vector mask_gather(Vector before, const void* from, Indices indices, Mask mask, int scale) {
  return mask_gather_512<Lane, Index>(before, mask, indices, from, scale);
}

template <class Lane, class Index, class Vector, class Indices>
[[gnu::always_inline]] inline Vector gather(const void* from, Indices indices, int scale) {
  return mask_gather_512<Lane, Index>(Vector{}, ALL, indices, from, scale);
}

template <class Lane, class Index, class Mask, class Indices, class Vector>
[[gnu::always_inline]] inline void mask_scatter(void* to, Mask mask, Indices indices, Vector values, int scale) {
  for (int i = 0; i < std::min(lanes_of<Lane, Vector>, lanes_of<Index, Indices>); ++i)
    if (is_chosen<Lane>(mask, i)) write<Lane>(values, i, to, int64_t{lane<Index>(indices, i)} * scale);
}

template <class Lane, class Index, class Indices, class Vector>
[[gnu::always_inline]] inline void scatter(void* to, Indices indices, Vector values, int scale) {
  mask_scatter<Lane, Index>(to, ALL, indices, values, scale);
}
}  // namespace kernelrl_watched

// SPDX-License-Identifier: BSD-3-Clause
//
// The loops over rows, written once (kernels/*.inl) and compiled for three instruction sets, of which the best that the
// processor has is chosen at run time: a build with the compiler's default flags runs as fast as one with
// -march=native.
//
// The files are included three times, because g++ splits vector operations according to the instruction set of the
// function that they are written in, before it inlines that function into another: a function must be compiled for its
// instruction set as a whole. Vectors are explicit, because without -O3 and -ffast-math neither compiler vectorises a
// loop that ends in a sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <normplace/detail/dropout_mask.hpp>
#include <normplace/detail/instruction_set.hpp>

#define NORMPLACE_INLINE __attribute__((always_inline)) inline

namespace normplace::detail {

/// A tensor and what it is multiplied by, in a sum.
template <class T>
struct Term {
    T factor;
    const T* data;
};

/// What a norm does to a row: it takes its mean away, divides it by its size, or both.
enum class RowNorm { centred_and_divided, divided, centred };

/// A tile of attention scores, `rows` queries against `columns` keys. Row r sees its first `visible + r` columns.
struct Tile {
    std::size_t rows, columns, stride;
    std::ptrdiff_t visible;
};

}  // namespace normplace::detail

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // packs are passed between inlined functions only

#define NORMPLACE_INSTRUCTION_SET baseline
#define NORMPLACE_VECTOR_BYTES 16
#include <normplace/detail/kernels/all.inl>

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define NORMPLACE_INSTRUCTION_SET avx2
#define NORMPLACE_VECTOR_BYTES 32
#include <normplace/detail/kernels/all.inl>
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,avx512bw"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512vl,avx512bw")
#endif
#define NORMPLACE_INSTRUCTION_SET avx512
#define NORMPLACE_VECTOR_BYTES 64
#include <normplace/detail/kernels/all.inl>
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

/// kernel(arguments) of the best instruction set.
#define NORMPLACE_KERNEL(kernel, ...)                                                      \
    (::normplace::detail::instruction_set() == ::normplace::detail::InstructionSet::avx512 \
         ? ::normplace::detail::avx512::kernel(__VA_ARGS__)                                \
     : ::normplace::detail::instruction_set() == ::normplace::detail::InstructionSet::avx2 \
         ? ::normplace::detail::avx2::kernel(__VA_ARGS__)                                  \
         : ::normplace::detail::baseline::kernel(__VA_ARGS__))
#else
#define NORMPLACE_KERNEL(kernel, ...) ::normplace::detail::baseline::kernel(__VA_ARGS__)
#endif

#pragma GCC diagnostic pop

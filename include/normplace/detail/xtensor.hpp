// SPDX-License-Identifier: BSD-3-Clause
//
// The one place that includes xtensor, whose headers moved in 0.26 (supported: 0.24.3 to 0.27), and the storage types
// that the library takes and returns. Kernels are loops over contiguous rows; xtensor is storage.
#pragma once

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xtensor.hpp>
#endif

#include <algorithm>
#include <array>
#include <cstddef>

namespace normplace {

// Row-major is spelled out, so that a user's XTENSOR_DEFAULT_LAYOUT cannot change what a row is.

/// Activations, (B, S, D).
template <class T>
using Activations = xt::xtensor<T, 3, xt::layout_type::row_major>;
/// A weight matrix, (out, in).
template <class T>
using Matrix = xt::xtensor<T, 2, xt::layout_type::row_major>;
/// A gain or a bias.
template <class T>
using Vector = xt::xtensor<T, 1, xt::layout_type::row_major>;

namespace detail {

template <std::size_t N>
using Shape = std::array<std::size_t, N>;

template <class Tensor>
using ShapeOf = Shape<std::tuple_size_v<typename Tensor::shape_type>>;

template <class Tensor>
ShapeOf<Tensor> shape_of(const Tensor& tensor) {
    ShapeOf<Tensor> shape{};
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = static_cast<std::size_t>(tensor.shape()[i]);
    return shape;
}

/// Gives `tensor` this shape; its memory is kept when it has that shape already.
template <class Tensor>
void reshape(Tensor& tensor, const ShapeOf<Tensor>& shape) {
    if (shape_of(tensor) != shape) tensor.resize(shape);
}

/// Copies `from` into `to`, whose memory is reused (xtensor's assignment may reallocate); nothing when they are one.
template <class T>
void copy(const Activations<T>& from, Activations<T>& to) {
    if (&from == &to) return;
    reshape(to, shape_of(from));
    std::copy(from.data(), from.data() + from.size(), to.data());
}

/// The number of rows of activations (B, S, D): B * S.
template <class T>
std::size_t row_count(const Activations<T>& x) {
    return static_cast<std::size_t>(x.shape()[0]) * static_cast<std::size_t>(x.shape()[1]);
}

}  // namespace detail
}  // namespace normplace

// SPDX-License-Identifier: BSD-3-Clause
//
// The matrices of a layer as unit vectors along the model width, for a placement on the sphere (`unit_matrices`):
//
//     each row of W_q, W_k, W_v (D, D) and W_1 (F, D), which read the stream:     w <- w / |w|
//     each column of W_o (D, D) and W_2 (D, F), which write to it:                w <- w / |w|
//
// at the start, and after each step of a training loop. A row or column of zeros stays. Loshchilov et al. 2024,
// arXiv:2410.01131, section 2.6. Embedding tables and the readout keep their lengths: those of the readout's rows are
// what the paper's s_z is, and where a block ends in a norm, a token's length is gone after the first.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/nn/parameter_list.hpp>

namespace normplace {

namespace detail {

enum class UnitVectors { none, rows, columns };

/// Of the parameter `layers.3.attention.query.weight`, by its last two names.
constexpr UnitVectors unit_vectors_of(std::string_view parameter) {
    constexpr std::string_view weight = ".weight";
    if (!parameter.ends_with(weight)) return UnitVectors::none;
    parameter.remove_suffix(weight.size());
    const std::string_view matrix = parameter.substr(parameter.find_last_of('.') + 1);
    if (matrix == "out" || matrix == "linear2") return UnitVectors::columns;
    const bool reads = matrix == "query" || matrix == "key" || matrix == "value" || matrix == "linear1";
    return reads ? UnitVectors::rows : UnitVectors::none;
}

/// matrix (rows, columns), row-major
template <class T>
void normalise_vectors(UnitVectors vectors, T* matrix, std::size_t rows, std::size_t columns) {
    const auto inverse = [](double square) { return square == 0.0 ? 1.0 : 1.0 / std::sqrt(square); };
    const double work = 2.0 * static_cast<double>(rows) * static_cast<double>(columns);
    if (vectors == UnitVectors::rows)
        parallel_ranges(rows, work, [&](std::size_t begin, std::size_t end, std::size_t) {
            for (T* row = matrix + begin * columns; row != matrix + end * columns; row += columns) {
                double square = 0.0;
                for (std::size_t c = 0; c < columns; ++c)
                    square += static_cast<double>(row[c]) * static_cast<double>(row[c]);
                const double factor = inverse(square);  // beyond float's range, perhaps
                for (std::size_t c = 0; c < columns; ++c) row[c] = static_cast<T>(static_cast<double>(row[c]) * factor);
            }
        });
    if (vectors == UnitVectors::columns)
        parallel_ranges(columns, work, [&](std::size_t begin, std::size_t end, std::size_t) {
            Scratch<double> factors(end - begin);
            double* factor = factors.data();
            std::fill_n(factor, end - begin, 0.0);
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t c = begin; c < end; ++c) {
                    const double entry = static_cast<double>(matrix[r * columns + c]);
                    factor[c - begin] += entry * entry;
                }
            for (std::size_t c = 0; c < end - begin; ++c) factor[c] = inverse(factor[c]);
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t c = begin; c < end; ++c) {
                    T& entry = matrix[r * columns + c];
                    entry = static_cast<T>(static_cast<double>(entry) * factor[c - begin]);
                }
        });
}

}  // namespace detail

/// Normalises the matrices of every layer in the list, whatever stack they are in. It knows them by the ends of their
/// names, `query.weight` and so on: a matrix of your own that is called so, `out.weight` for a readout, is one of them.
template <class T>
void normalise_matrices(const ParameterList<T>& parameters) {
    for (const Parameter<T>& parameter : parameters)
        if (parameter.shape.size() == 2)
            detail::normalise_vectors(detail::unit_vectors_of(parameter.name), parameter.value.data(),
                                      parameter.shape[0], parameter.shape[1]);
}

/// The same of one layer's, or of a model's.
template <class Layer>
requires requires { typename Layer::Scalar; }
void normalise_matrices(Layer& layer) {
    for_each_parameter(
        [](const std::string& name, auto& value) {
            if constexpr (std::tuple_size_v<typename std::decay_t<decltype(value)>::shape_type> == 2)
                detail::normalise_vectors(detail::unit_vectors_of(name), value.data(), value.shape()[0],
                                          value.shape()[1]);
        },
        layer);
}

}  // namespace normplace

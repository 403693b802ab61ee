// SPDX-License-Identifier: BSD-3-Clause
//
// The norm of all gradients together, and gradients scaled down to a largest norm (Pascanu, Mikolov and Bengio 2013,
// arXiv:1211.5063, algorithm 1), with the constants of PyTorch's clip_grad_norm_.
#pragma once

#include <algorithm>
#include <cmath>

#include <normplace/detail/workspace.hpp>
#include <normplace/train/parameter_entries.hpp>
#include <normplace/train/require_number.hpp>

namespace normplace {

namespace detail {

/// In four sums, since an addition takes several cycles and does not wait for the others'.
template <class T>
double sum_of_squares(const T* x, std::size_t count) {
    double sums[4] = {};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (std::size_t k = 0; k < 4; ++k) {
            const double entry = static_cast<double>(x[i + k]);
            sums[k] += entry * entry;
        }
    for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// By what clip_gradients multiplies.
inline double clip_factor(double norm, double max_norm) {
    return std::isfinite(norm) ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace detail

/// sqrt(sum over all parameters of ||G||_F^2), summed in double precision: the same bits for any number of threads.
/// Not finite when a gradient is not.
template <class T>
double gradient_norm(const ParameterList<T>& parameters) {
    constexpr std::size_t block = 4096;
    const std::size_t count = detail::entry_count(parameters), blocks = (count + block - 1) / block;
    detail::require_gradients("gradient_norm", parameters);
    detail::Scratch<double> sums(blocks);
    double* sum = sums.data();
    std::fill_n(sum, blocks, 0.0);
    detail::parallel_ranges(blocks, static_cast<double>(count), [&](std::size_t begin, std::size_t end, std::size_t) {
        detail::for_entries(parameters, begin * block, end * block,
                            [&](const Parameter<T>& parameter, std::size_t first, std::size_t left, std::size_t at) {
                                while (left > 0) {
                                    const std::size_t part = std::min(left, block - at % block);
                                    sum[at / block] += detail::sum_of_squares(parameter.gradient.data() + first, part);
                                    first += part, at += part, left -= part;
                                }
                            });
    });
    double total = 0.0;
    for (std::size_t b = 0; b < blocks; ++b) total += sum[b];
    return std::sqrt(total);
}

/// G = factor G, for all parameters.
template <class T>
void scale_gradients(const ParameterList<T>& parameters, double factor) {
    if (factor == 1.0) return;
    detail::require_gradients("scale_gradients", parameters);
    detail::parallel_entries(parameters, 1.0,
                             [&](const Parameter<T>& parameter, std::size_t first, std::size_t count, std::size_t) {
                                 T* gradient = parameter.gradient.data() + first;
                                 const T scalar = static_cast<T>(factor);
                                 for (std::size_t i = 0; i < count; ++i) gradient[i] *= scalar;
                             });
}

/// G = min(1, max_norm / (norm + 1e-6)) G, for all parameters, with norm = gradient_norm before, which it returns. When
/// that is not finite nothing is scaled.
/// @throws std::invalid_argument when max_norm is not a finite number above 0
template <class T>
double clip_gradients(const ParameterList<T>& parameters, double max_norm) {
    detail::require_above_0("clip_gradients", "largest norm", max_norm);
    const double norm = gradient_norm(parameters);
    scale_gradients(parameters, detail::clip_factor(norm, max_norm));
    return norm;
}

}  // namespace normplace

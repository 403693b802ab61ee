// SPDX-License-Identifier: BSD-3-Clause
//
// A learned factor: y = g o x with one number g for each channel, or y = g x with one number. LayerScale's lambda
// (Touvron et al. 2021, arXiv:2103.17239), ReZero's alpha (Bachlechner et al. 2020, arXiv:2003.04887).
#pragma once

#include <algorithm>

#include <normplace/detail/check.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/detail/xtensor.hpp>

namespace normplace::detail {

/// y (B, S, D) = gate x; gate has D entries or one. y may be x.
template <class T>
void gate_forward(const Vector<T>& gate, const Activations<T>& x, Activations<T>& y) {
    reshape(y, shape_of(x));
    const std::size_t d = shape_of(x)[2];
    const bool per_channel = gate.size() > 1;
    parallel_ranges(row_count(x), static_cast<double>(x.size()), [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t r = begin; r < end; ++r) {
            const T *row = x.data() + r * d, *g = gate.data();
            T* to = y.data() + r * d;
            if (per_channel)
                for (std::size_t i = 0; i < d; ++i) to[i] = g[i] * row[i];
            else
                for (std::size_t i = 0; i < d; ++i) to[i] = g[0] * row[i];
        }
    });
}

/// dx = factor gate dy, dgate += factor sum of dy o x over tokens (and channels, for one number). dx may be dy.
template <class T>
void gate_backward(const Vector<T>& gate, const Activations<T>& x, const Activations<T>& dy, T factor,
                   Activations<T>& dx, Vector<T>& dgate) {
    const std::size_t d = shape_of(dy)[2];
    const double work = 2.0 * static_cast<double>(dy.size());
    reshape(dx, shape_of(dy));
    // Each thread sums its own rows; the sums are then added in the order of the rows.
    const std::size_t threads = threads_for(work);
    Scratch<T> sums(d * threads);
    std::fill_n(sums.data(), d * threads, T(0));
    parallel_ranges(row_count(dy), work, [&](std::size_t begin, std::size_t end, std::size_t range) {
        T* sum = sums.data() + d * range;
        for (std::size_t r = begin; r < end; ++r) {
            const T *value = x.data() + r * d, *gradient = dy.data() + r * d;
            T* to = dx.data() + r * d;
            for (std::size_t i = 0; i < d; ++i) {
                const T arriving = factor * gradient[i];
                sum[i] += arriving * value[i];
                to[i] = arriving * gate.data()[gate.size() > 1 ? i : 0];
            }
        }
    });
    for (std::size_t t = 0; t < threads; ++t)
        for (std::size_t i = 0; i < d; ++i) dgate.data()[gate.size() > 1 ? i : 0] += sums.data()[d * t + i];
}

}  // namespace normplace::detail

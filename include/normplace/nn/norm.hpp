// SPDX-License-Identifier: BSD-3-Clause
//
// The normalizations: LayerNorm and RMSNorm, over the last dimension, with learned gain and optional bias.
//
//     LayerNorm   y = gain o (x - mean) / sqrt(variance + epsilon) + bias     Ba et al. 2016, arXiv:1607.06450
//     RMSNorm     y = gain o x / sqrt(mean of x^2 + epsilon) + bias           Zhang and Sennrich 2019, arXiv:1910.07467
//
// The variance is the biased one, and epsilon stands inside the root. A row is shifted by its first entry before it is
// summed, so that a constant row normalises to exactly 0 however large the constant. D = 1 gives 0 (LayerNorm).
#pragma once

#include <cmath>
#include <concepts>
#include <tuple>

#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/nn/parameters.hpp>

namespace normplace {

/// A norm that takes a sum of terms for its argument and a factor on its gradient, and works in place.
template <class N>
concept SummingNorm = std::same_as<typename N::SumsTerms, N>;

struct NormOptions {
    std::size_t width = 0;  ///< D
    double epsilon = 1e-5;
    bool bias = true;
};

/// What LayerNorm and RMSNorm share: they differ in one thing, whether the row's mean is taken away.
template <class T, bool centred>
class Normalization {
public:
    using Scalar = T;
    using Options = NormOptions;
    using SumsTerms = Normalization;  // what derives from it may not
    static constexpr auto name = centred ? "LayerNorm" : "RMSNorm";

    struct Gradients {
        Vector<T> gain;  // (D)
        Vector<T> bias;  // (D), or empty
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("gain", self.gain), named("bias", self.bias));
        }
    };
    struct Cache {
        Activations<T> normalized;    // (B, S, D), before gain and bias
        Vector<T> inverse_deviation;  // (B S)
    };

    Vector<T> gain;  ///< (D), 1 at the start
    Vector<T> bias;  ///< (D), 0 at the start, or empty

    Normalization() = default;
    /// @throws std::invalid_argument when the width is 0 or epsilon is not positive
    explicit Normalization(const NormOptions& options) : epsilon_(static_cast<T>(options.epsilon)) {
        detail::require_positive(name, "width", options.width);
        detail::require(epsilon_ > T(0) && std::isfinite(epsilon_), name, [&] {
            return "epsilon " + detail::number_text(options.epsilon) + " is not positive and finite";
        });
        gain.resize({options.width});
        gain.fill(T(1));
        if (options.bias) {
            bias.resize({options.width});
            bias.fill(T(0));
        }
    }

    std::size_t width() const { return gain.size(); }

    /// y (B, S, D); y may be x.
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache) const {
        detail::require_width(name, "x", x, width());
        const detail::Term<T> term{T(1), x.data()};
        forward_sum(&term, 1, detail::shape_of(x), y, cache);
    }

    /// y = norm(sum of the terms), each a (B, S, D) of the given shape: the residual addition of norm(x + f(x)) is done
    /// where a row is in the cache anyway. y may be a term's tensor.
    void forward_sum(const detail::Term<T>* terms, std::size_t count, const detail::Shape<3>& shape, Activations<T>& y,
                     Cache& cache) const {
        const std::size_t rows = shape[0] * shape[1];
        detail::reshape(y, shape);
        detail::reshape(cache.normalized, shape);
        detail::reshape(cache.inverse_deviation, {rows});
        detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            NORMPLACE_KERNEL(norm_rows<centred>, terms, count, begin, end, width(), epsilon_, gain.data(),
                             bias.size() ? bias.data() : nullptr, y.data(), cache.normalized.data(),
                             cache.inverse_deviation.data());
        });
    }

    /// With h the normalized row, s its inverse deviation and g = gain o dy:
    /// dx = s (g - mean(g) - h mean(g o h)), without mean(g) for RMSNorm; gradients += (dy o h, dy). dx may be dy.
    void backward(const Activations<T>& dy, Activations<T>& dx, const Cache& cache, Gradients& gradients) const {
        backward_sum(dy, T(1), nullptr, 0, dx, cache, gradients);
    }

    /// The same of factor * dy; and dx is what that gives plus the sum of the terms, each a (B, S, D): the other
    /// gradients that arrive where the norm's input comes from.
    void backward_sum(const Activations<T>& dy, T factor, const detail::Term<T>* terms, std::size_t count,
                      Activations<T>& dx, const Cache& cache, Gradients& gradients) const {
        detail::require_width(name, "dy", dy, width());
        detail::require_shape(name, "dy", dy, detail::shape_of(cache.normalized));
        detail::require_shape(name, "gradients.gain", gradients.gain, detail::shape_of(gain));
        detail::require_shape(name, "gradients.bias", gradients.bias, detail::shape_of(bias));
        const std::size_t rows = detail::row_count(dy), d = width();
        detail::reshape(dx, detail::shape_of(dy));
        // Each thread sums the gradients of its own rows; the sums are then added in the order of the rows.
        const std::size_t threads = detail::threads_for(work(rows));
        detail::Scratch<T> sums(2 * d * threads);
        std::fill_n(sums.data(), 2 * d * threads, T(0));
        detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t range) {
            T* dgain = sums.data() + 2 * d * range;
            NORMPLACE_KERNEL(norm_backward_rows<centred>, dy.data(), factor, terms, count, begin, end, d, gain.data(),
                             cache.normalized.data(), cache.inverse_deviation.data(), dx.data(), dgain,
                             bias.size() ? dgain + d : nullptr);
        });
        for (std::size_t t = 0; t < threads; ++t)
            for (std::size_t i = 0; i < d; ++i) {
                gradients.gain[i] += sums.data()[2 * d * t + i];
                if (bias.size()) gradients.bias[i] += sums.data()[2 * d * t + d + i];
            }
    }

private:
    double work(std::size_t rows) const { return static_cast<double>(rows) * static_cast<double>(width()); }

    T epsilon_ = static_cast<T>(1e-5);
};

template <class T>
using LayerNorm = Normalization<T, true>;
template <class T>
using RMSNorm = Normalization<T, false>;

}  // namespace normplace

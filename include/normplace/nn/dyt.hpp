// SPDX-License-Identifier: BSD-3-Clause
//
// DyT, which stands where a norm does but looks at each entry alone:
//
//     y = gain o tanh(alpha x) + bias, alpha one learned scalar
//
// Zhu et al. 2025, arXiv:2503.10622. It bounds a row, and does not fix its size: what a placement's formula promises of
// a normalised row, DyT promises only where alpha x is large. An infinite entry is 1 to it, with a gradient of NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>

#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/nn/norm_layer.hpp>

namespace normplace {

template <class T>
class DyT {
public:
    using Scalar = T;
    using Options = NormOptions;
    using SumsTerms = DyT;
    static constexpr auto name = "DyT";
    static constexpr NormKind kind = NormKind::dyt;

    struct Gradients {
        Vector<T> alpha;  // (1)
        Vector<T> gain;   // (D)
        Vector<T> bias;   // (D), or empty
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("alpha", self.alpha), named("gain", self.gain), named("bias", self.bias));
        }
    };
    struct Cache {
        Activations<T> input;       // (B, S, D), x
        Activations<T> normalized;  // (B, S, D), tanh(alpha x)
    };

    Vector<T> alpha;  ///< (1), options.alpha at the start
    Vector<T> gain;   ///< (D), options.gain at the start
    Vector<T> bias;   ///< (D), 0 at the start, or empty

    DyT() = default;
    /// @throws std::invalid_argument when the width is 0 or alpha is not finite
    explicit DyT(const NormOptions& options) {
        detail::require_positive(name, "width", options.width);
        alpha.resize({1});
        alpha.fill(static_cast<T>(options.alpha));
        detail::require(std::isfinite(alpha[0]), name,
                        [&] { return "alpha " + detail::number_text(options.alpha) + " is not finite"; });
        gain.resize({options.width});
        gain.fill(static_cast<T>(options.gain));
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

    /// The same of the sum of the terms, each a (B, S, D) of the given shape. y may be a term's tensor.
    void forward_sum(const detail::Term<T>* terms, std::size_t count, const detail::Shape<3>& shape, Activations<T>& y,
                     Cache& cache) const {
        detail::reshape(y, shape);
        detail::require_width(name, "y", y, width());
        detail::reshape(cache.input, shape);
        detail::reshape(cache.normalized, shape);
        const std::size_t rows = shape[0] * shape[1];
        detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            NORMPLACE_KERNEL(dyt_rows, terms, count, begin, end, width(), alpha[0], gain.data(),
                             bias.size() ? bias.data() : nullptr, y.data(), cache.input.data(),
                             cache.normalized.data());
        });
    }

    /// With h = tanh(alpha x) and u = gain o dy o (1 - h^2): dx = alpha u; gradients += (the sum of u o x, dy o h, dy).
    /// dx may be dy.
    void backward(const Activations<T>& dy, Activations<T>& dx, const Cache& cache, Gradients& gradients) const {
        backward_sum(dy, T(1), nullptr, 0, dx, cache, gradients);
    }

    /// The same of factor * dy; and dx is what that gives plus the sum of the terms, each a (B, S, D).
    void backward_sum(const Activations<T>& dy, T factor, const detail::Term<T>* terms, std::size_t count,
                      Activations<T>& dx, const Cache& cache, Gradients& gradients) const {
        detail::require_width(name, "dy", dy, width());
        detail::require_shape(name, "dy", dy, detail::shape_of(cache.normalized));
        detail::require_shape(name, "gradients.alpha", gradients.alpha, detail::shape_of(alpha));
        detail::require_shape(name, "gradients.gain", gradients.gain, detail::shape_of(gain));
        detail::require_shape(name, "gradients.bias", gradients.bias, detail::shape_of(bias));
        const std::size_t rows = detail::row_count(dy), d = width(), size = 2 * d + 1;
        detail::reshape(dx, detail::shape_of(dy));
        // Each thread sums the gradients of its own rows; the sums are then added in the order of the rows.
        const std::size_t threads = detail::threads_for(work(rows));
        detail::Scratch<T> sums(size * threads);
        std::fill_n(sums.data(), size * threads, T(0));
        detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t range) {
            T* dgain = sums.data() + size * range;
            dgain[2 * d] = NORMPLACE_KERNEL(dyt_backward_rows, dy.data(), factor, terms, count, begin, end, d, alpha[0],
                                            gain.data(), cache.input.data(), cache.normalized.data(), dx.data(), dgain,
                                            bias.size() ? dgain + d : nullptr);
        });
        for (std::size_t t = 0; t < threads; ++t) {
            const T* sum = sums.data() + size * t;
            for (std::size_t i = 0; i < d; ++i) {
                gradients.gain[i] += sum[i];
                if (bias.size()) gradients.bias[i] += sum[d + i];
            }
            gradients.alpha[0] += sum[2 * d];
        }
    }

private:
    /// An entry is worth some eight of another norm's.
    double work(std::size_t rows) const { return 8.0 * static_cast<double>(rows) * static_cast<double>(width()); }
};

}  // namespace normplace

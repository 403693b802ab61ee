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
#include <tuple>

#include <normplace/detail/check.hpp>
#include <normplace/nn/parameters.hpp>

namespace normplace {

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
        detail::require(epsilon_ > T(0) && std::isfinite(epsilon_), name,
                        "epsilon " + detail::number_text(options.epsilon) + " is not positive and finite");
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
        const std::size_t rows = detail::row_count(x), d = width();
        detail::reshape(y, detail::shape_of(x));
        detail::reshape(cache.normalized, detail::shape_of(x));
        detail::reshape(cache.inverse_deviation, {rows});
        for (std::size_t r = 0; r < rows; ++r)
            forward_row(x.data() + r * d, y.data() + r * d, cache.normalized.data() + r * d,
                        cache.inverse_deviation[r]);
    }

    /// With h the normalized row, s its inverse deviation and g = gain o dy:
    /// dx = s (g - mean(g) - h mean(g o h)), without mean(g) for RMSNorm; gradients += (dy o h, dy). dx may be dy.
    void backward(const Activations<T>& dy, Activations<T>& dx, const Cache& cache, Gradients& gradients) const {
        detail::require_width(name, "dy", dy, width());
        detail::require_shape(name, "dy", dy, detail::shape_of(cache.normalized));
        detail::require_shape(name, "gradients.gain", gradients.gain, detail::shape_of(gain));
        detail::require_shape(name, "gradients.bias", gradients.bias, detail::shape_of(bias));
        const std::size_t rows = detail::row_count(dy), d = width();
        detail::reshape(dx, detail::shape_of(dy));
        for (std::size_t r = 0; r < rows; ++r)
            backward_row(dy.data() + r * d, dx.data() + r * d, cache.normalized.data() + r * d,
                         cache.inverse_deviation[r], gradients);
    }

private:
    void forward_row(const T* x, T* y, T* h, T& inverse_deviation) const {
        const std::size_t d = width();
        const T count = static_cast<T>(d);
        T mean = 0;  // of x - shift
        const T shift = centred ? x[0] : T(0);
        if constexpr (centred) {
            for (std::size_t i = 0; i < d; ++i) mean += x[i] - shift;
            mean /= count;
        }
        T squares = 0;
        for (std::size_t i = 0; i < d; ++i) {
            h[i] = (x[i] - shift) - mean;
            squares += h[i] * h[i];
        }
        inverse_deviation = T(1) / std::sqrt(squares / count + epsilon_);
        for (std::size_t i = 0; i < d; ++i) h[i] *= inverse_deviation;
        if (bias.size())
            for (std::size_t i = 0; i < d; ++i) y[i] = gain[i] * h[i] + bias[i];
        else
            for (std::size_t i = 0; i < d; ++i) y[i] = gain[i] * h[i];
    }

    void backward_row(const T* dy, T* dx, const T* h, T inverse_deviation, Gradients& gradients) const {
        const std::size_t d = width();
        T* dgain = gradients.gain.data();
        for (std::size_t i = 0; i < d; ++i) dgain[i] += dy[i] * h[i];
        if (bias.size()) {
            T* dbias = gradients.bias.data();
            for (std::size_t i = 0; i < d; ++i) dbias[i] += dy[i];
        }
        T mean = 0, projection = 0;
        for (std::size_t i = 0; i < d; ++i) {
            const T g = gain[i] * dy[i];
            if constexpr (centred) mean += g;
            projection += g * h[i];
        }
        const T count = static_cast<T>(d);
        mean /= count;
        projection /= count;
        for (std::size_t i = 0; i < d; ++i) dx[i] = inverse_deviation * (gain[i] * dy[i] - mean - h[i] * projection);
    }

    T epsilon_ = static_cast<T>(1e-5);
};

template <class T>
using LayerNorm = Normalization<T, true>;
template <class T>
using RMSNorm = Normalization<T, false>;

}  // namespace normplace

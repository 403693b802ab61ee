// SPDX-License-Identifier: BSD-3-Clause
//
// The normalizations over the last dimension, of D entries, that take the row's mean away, or divide it by its size, or
// both:
//
//     LayerNorm   y = gain o (x - mean) / sqrt(variance + epsilon) + bias     Ba et al. 2016, arXiv:1607.06450
//     RMSNorm     y = gain o x / sqrt(mean of x^2 + epsilon) + bias           Zhang and Sennrich 2019, arXiv:1910.07467
//     ScaleNorm   y = gain x / sqrt(|x|^2 + D epsilon), one gain, sqrt(D) at the start: RMSNorm then
//                                                                  Nguyen and Salazar 2019, arXiv:1910.05895
//     UnitNorm    y = x / sqrt(|x|^2 + epsilon), without parameters           Loshchilov et al. 2024, arXiv:2410.01131
//     CentreNorm  y = D/(D - 1) gain o (x - mean) + bias                      Qi et al. 2023, arXiv:2304.09856
//
// UnitOffsetLayerNorm and UnitOffsetRMSNorm multiply by 1 + gain in place of gain, and gain is 0 at the start (Gemma
// Team 2024, arXiv:2403.08295): it is what such a model's files hold, and weight decay draws the factor to 1.
//
// The variance is the biased one, and epsilon stands inside the root; UnitNorm's is of the length and not of an entry,
// so that a row of length 1 keeps it however wide it is. A row is shifted by its first entry before it is summed, so
// that a constant row normalises to exactly 0 however large the constant. D = 1 gives the bias where the mean is taken
// away; where it is not, a row of zeros does, and one whose squares overflow.
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

namespace detail {

/// What is learned: a factor for each entry, what such factors are beyond 1, the row's length, or nothing, and the
/// length is 1.
enum class LearnedGain { each, beyond_one, length, none };

struct LayerNormKind {
    static constexpr auto name = "LayerNorm";
    static constexpr NormKind kind = NormKind::layer_norm;
    static constexpr RowNorm rows = RowNorm::centred_and_divided;
    static constexpr LearnedGain learned = LearnedGain::each;
};
struct RMSNormKind {
    static constexpr auto name = "RMSNorm";
    static constexpr NormKind kind = NormKind::rms_norm;
    static constexpr RowNorm rows = RowNorm::divided;
    static constexpr LearnedGain learned = LearnedGain::each;
};
struct UnitOffsetLayerNormKind : LayerNormKind {
    static constexpr auto name = "UnitOffsetLayerNorm";
    static constexpr NormKind kind = NormKind::unit_offset_layer_norm;
    static constexpr LearnedGain learned = LearnedGain::beyond_one;
};
struct UnitOffsetRMSNormKind : RMSNormKind {
    static constexpr auto name = "UnitOffsetRMSNorm";
    static constexpr NormKind kind = NormKind::unit_offset_rms_norm;
    static constexpr LearnedGain learned = LearnedGain::beyond_one;
};
struct ScaleNormKind : RMSNormKind {
    static constexpr auto name = "ScaleNorm";
    static constexpr NormKind kind = NormKind::scale_norm;
    static constexpr LearnedGain learned = LearnedGain::length;
};
struct UnitNormKind : RMSNormKind {
    static constexpr auto name = "UnitNorm";
    static constexpr NormKind kind = NormKind::unit_norm;
    static constexpr LearnedGain learned = LearnedGain::none;
};
struct CentreNormKind : LayerNormKind {
    static constexpr auto name = "CentreNorm";
    static constexpr NormKind kind = NormKind::centre_norm;
    static constexpr RowNorm rows = RowNorm::centred;
};

}  // namespace detail

/// What they share: they differ in whether the row's mean is taken away, whether it is divided by its size, and what is
/// learned.
template <class T, class Kind>
class Normalization {
    using LearnedGain = detail::LearnedGain;
    static constexpr LearnedGain learned = Kind::learned;
    static constexpr bool by_entry = learned == LearnedGain::each || learned == LearnedGain::beyond_one;

public:
    using Scalar = T;
    using Options = NormOptions;
    using SumsTerms = Normalization;
    static constexpr auto name = Kind::name;
    static constexpr NormKind kind = Kind::kind;

    struct Gradients {
        Vector<T> gain;  // as the layer's
        Vector<T> bias;  // (D), or empty
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("gain", self.gain), named("bias", self.bias));
        }
    };
    struct Cache {
        Activations<T> normalized;    // (B, S, D), before gain and bias, its mean square 1 where it was divided
        Vector<T> inverse_deviation;  // (B S), what the row was multiplied by
    };

    Vector<T> gain;  ///< (D), (1) for ScaleNorm, or empty for UnitNorm; it starts as options.gain says
    Vector<T> bias;  ///< (D), 0 at the start, or empty: always for ScaleNorm and UnitNorm

    Normalization() = default;
    /// @throws std::invalid_argument when the width is 0, epsilon is not positive, or UnitNorm is given a gain
    explicit Normalization(const NormOptions& options)
        : width_(options.width), epsilon_(static_cast<T>(options.epsilon)) {
        detail::require_positive(name, "width", width_);
        if (learned == LearnedGain::none) epsilon_ /= static_cast<T>(width_);
        detail::require(epsilon_ > T(0) && std::isfinite(epsilon_), name, [&] {
            return "epsilon " + detail::number_text(options.epsilon) + " is not positive and finite";
        });
        gain.resize({by_entry ? width_ : learned == LearnedGain::length ? 1 : 0});
        const T start = static_cast<T>(options.gain);
        detail::require(learned != LearnedGain::none || start == T(1), name,
                        [&] { return "it has no gain that could start at " + detail::number_text(options.gain); });
        gain.fill(learned == LearnedGain::each     ? start
                  : learned == LearnedGain::length ? start * length()
                                                   : start - T(1));
        if (options.bias && by_entry) {
            bias.resize({width_});
            bias.fill(T(0));
        }
    }

    std::size_t width() const { return width_; }

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
        detail::require_width(name, "y", y, width());
        detail::reshape(cache.normalized, shape);
        detail::reshape(cache.inverse_deviation, {rows});
        if constexpr (Kind::rows == detail::RowNorm::centred) {
            const T d = static_cast<T>(width_);
            cache.inverse_deviation.fill(d / std::max(d - T(1), T(1)));
        }
        with_factors([&](const T* factors) {
            detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
                NORMPLACE_KERNEL(norm_rows<Kind::rows>, terms, count, begin, end, width_, epsilon_, factors,
                                 bias.size() ? bias.data() : nullptr, y.data(), cache.normalized.data(),
                                 cache.inverse_deviation.data());
            });
        });
    }

    /// With h the normalized row, s its inverse deviation and g = factor o dy: dx = s (g - mean(g) - h mean(g o h)),
    /// without mean(g) where the mean is not taken away, without h mean(g o h) where the row is not divided.
    /// gradients += (dy o h, dy), for ScaleNorm the sum of dy o h / sqrt(D). dx may be dy.
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
        with_factors([&](const T* factors) {
            detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t range) {
                T* dgain = sums.data() + 2 * d * range;
                NORMPLACE_KERNEL(norm_backward_rows<Kind::rows>, dy.data(), factor, terms, count, begin, end, d,
                                 factors, cache.normalized.data(), cache.inverse_deviation.data(), dx.data(), dgain,
                                 bias.size() ? dgain + d : nullptr);
            });
        });
        for (std::size_t t = 0; t < threads; ++t)
            for (std::size_t i = 0; i < d; ++i) {
                const T* sum = sums.data() + 2 * d * t;
                if constexpr (by_entry) gradients.gain[i] += sum[i];
                else if constexpr (learned == LearnedGain::length) gradients.gain[0] += sum[i] / length();
                if (bias.size()) gradients.bias[i] += sum[d + i];
            }
    }

private:
    double work(std::size_t rows) const { return static_cast<double>(rows) * static_cast<double>(width_); }
    /// Of a row whose mean square is 1.
    T length() const { return std::sqrt(static_cast<T>(width_)); }

    /// body(factors), with what the entries of a normalised row are multiplied by.
    template <class Body>
    void with_factors(const Body& body) const {
        if constexpr (learned == LearnedGain::each) {
            body(gain.data());
        } else {
            detail::Scratch<T> factors(width_);
            if constexpr (learned == LearnedGain::beyond_one)
                for (std::size_t i = 0; i < width_; ++i) factors.data()[i] = T(1) + gain[i];
            else std::fill_n(factors.data(), width_, (learned == LearnedGain::length ? gain[0] : T(1)) / length());
            body(factors.data());
        }
    }

    std::size_t width_ = 0;
    T epsilon_ = static_cast<T>(1e-5);
};

template <class T>
using LayerNorm = Normalization<T, detail::LayerNormKind>;
template <class T>
using RMSNorm = Normalization<T, detail::RMSNormKind>;
template <class T>
using UnitOffsetLayerNorm = Normalization<T, detail::UnitOffsetLayerNormKind>;
template <class T>
using UnitOffsetRMSNorm = Normalization<T, detail::UnitOffsetRMSNormKind>;
template <class T>
using ScaleNorm = Normalization<T, detail::ScaleNormKind>;
template <class T>
using UnitNorm = Normalization<T, detail::UnitNormKind>;
template <class T>
using CentreNorm = Normalization<T, detail::CentreNormKind>;

}  // namespace normplace

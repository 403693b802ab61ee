// SPDX-License-Identifier: BSD-3-Clause
//
// What Adam and RAdam share: running averages of the gradient and of its square, and one loop over all parameters.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <normplace/train/parameter_entries.hpp>
#include <normplace/train/require_number.hpp>

namespace normplace {

/// The hyper-parameters of Adam, AdamW and RAdam.
struct AdamOptions {
    double beta1 = 0.9;                   ///< of the average of gradients, [0, 1)
    double beta2 = 0.999;                 ///< of the average of their squares, [0, 1)
    double epsilon = 1e-8;                ///< above 0, so that a parameter without a gradient stays where it is
    double weight_decay = 0.0;            ///< lambda
    bool decoupled_weight_decay = false;  ///< from W itself (AdamW), not into its gradient (Adam)
};

namespace detail {

/// Neither compiler vectorises a loop that calls std::sqrt, which may set errno, and that is most of
/// an update's time.
template <class T>
void take_square_roots(T* values, std::size_t count) {
    std::size_t i = 0;
#ifdef __SSE2__
    if constexpr (std::is_same_v<T, float>)
        for (; i + 4 <= count; i += 4) _mm_storeu_ps(values + i, _mm_sqrt_ps(_mm_loadu_ps(values + i)));
    if constexpr (std::is_same_v<T, double>)
        for (; i + 2 <= count; i += 2) _mm_storeu_pd(values + i, _mm_sqrt_pd(_mm_loadu_pd(values + i)));
#endif
    for (; i < count; ++i) values[i] = std::sqrt(values[i]);
}

template <class T>
class MomentOptimizer {
public:
    std::uint64_t steps() const { return steps_; }
    void resume(std::uint64_t steps) { steps_ = steps; }

    /// "first_moment.<parameter>" of all parameters, then "second_moment.<parameter>".
    std::vector<NamedTensor<T>> state() {
        std::vector<NamedTensor<T>> tensors;
        append_named(tensors, "first_moment", parameters_, first_);
        append_named(tensors, "second_moment", parameters_, second_);
        return tensors;
    }

protected:
    MomentOptimizer(const char* who, const ParameterList<T>& parameters, const AdamOptions& options)
        : options_(options), parameters_(parameters) {
        require_rate(who, "beta1", options.beta1);
        require_rate(who, "beta2", options.beta2);
        require_above_0(who, "epsilon", options.epsilon);
        require_at_least_0(who, "weight decay", options.weight_decay);
        require_gradients(who, parameters);
        first_.resize(entry_count(parameters));
        second_.resize(first_.size());
    }

    /// What a step divides the first moment by, when it does: sqrt(v) + epsilon.
    struct Divisor {
        bool divides;
        double epsilon = 0.0;
    };

    /// With g the gradient, m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
    /// W = W - size m / (sqrt(v) + epsilon), or W = W - size m.
    void update(double learning_rate, double size, Divisor divisor) {
        const Factors factors(options_, learning_rate, size, divisor.epsilon);
        parallel_entries(
            parameters_, 6.0, [&](const Parameter<T>& parameter, std::size_t first, std::size_t count, std::size_t at) {
                update_entries(factors, divisor.divides, parameter.value.data() + first,
                               parameter.gradient.data() + first, first_.data() + at, second_.data() + at, count);
            });
        ++steps_;
    }

    AdamOptions options_;

private:
    struct Factors {
        Factors(const AdamOptions& options, double learning_rate, double step_size, double divisor_epsilon)
            : beta1(static_cast<T>(options.beta1)),
              beta2(static_cast<T>(options.beta2)),
              fresh1(static_cast<T>(1.0 - options.beta1)),
              fresh2(static_cast<T>(1.0 - options.beta2)),
              penalty(static_cast<T>(options.decoupled_weight_decay ? 0.0 : options.weight_decay)),
              kept(static_cast<T>(options.decoupled_weight_decay ? 1.0 - learning_rate * options.weight_decay : 1.0)),
              size(static_cast<T>(step_size)),
              epsilon(std::max(static_cast<T>(divisor_epsilon), std::numeric_limits<T>::min())) {}

        T beta1, beta2, fresh1, fresh2, penalty, kept, size, epsilon;
    };

    /// A block at a time, whose square roots stay in the cache.
    static void update_entries(Factors f, bool divides, T* value, const T* gradient, T* first, T* second,
                               std::size_t count) {
        std::array<T, 512> root;
        while (count > 0) {
            const std::size_t block = std::min(count, root.size());
            for (std::size_t i = 0; i < block; ++i) {
                const T g = gradient[i] + f.penalty * value[i];
                first[i] = f.beta1 * first[i] + f.fresh1 * g;
                second[i] = f.beta2 * second[i] + f.fresh2 * g * g;
            }
            if (divides) {
                std::copy_n(second, block, root.data());
                take_square_roots(root.data(), block);
                for (std::size_t i = 0; i < block; ++i)
                    value[i] = f.kept * value[i] - f.size * first[i] / (root[i] + f.epsilon);
            } else {
                for (std::size_t i = 0; i < block; ++i) value[i] = f.kept * value[i] - f.size * first[i];
            }
            value += block, gradient += block, first += block, second += block, count -= block;
        }
    }

    ParameterList<T> parameters_;
    std::vector<T> first_, second_;  // rows of entries
    std::uint64_t steps_ = 0;
};

}  // namespace detail
}  // namespace normplace

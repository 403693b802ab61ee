// SPDX-License-Identifier: BSD-3-Clause
//
// Stochastic gradient descent with momentum (Polyak 1964; Nesterov's in the form of Sutskever et al. 2013), as
// PyTorch's SGD defines it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <normplace/train/parameter_entries.hpp>
#include <normplace/train/require_number.hpp>

namespace normplace {

struct SGDOptions {
    double momentum = 0.0;      ///< mu, [0, 1)
    double dampening = 0.0;     ///< tau, [0, 1]
    double weight_decay = 0.0;  ///< lambda, of an L2 penalty lambda/2 ||W||^2
    bool nesterov = false;      ///< needs a momentum, and no dampening
};

/// With gradient G of W, at learning rate eta:
///
///     g = G + lambda W
///     b = mu b + (1 - tau) g             in the first step b = g
///     W = W - eta b                      without momentum:  W = W - eta g
///     W = W - eta (g + mu b)             for Nesterov's
template <class T>
class SGD {
public:
    /// @throws std::invalid_argument when an option is out of its range, or a gradient has not its parameter's size
    explicit SGD(const ParameterList<T>& parameters, const SGDOptions& options = {})
        : parameters_(parameters), options_(options) {
        detail::require_rate("SGD", "momentum", options.momentum);
        detail::require_number("SGD", "dampening", options.dampening,
                               options.dampening >= 0.0 && options.dampening <= 1.0, "a number in [0, 1]");
        detail::require_at_least_0("SGD", "weight decay", options.weight_decay);
        detail::require(!options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0), "SGD", [&] {
            return "nesterov with momentum " + detail::number_text(options.momentum) + " and dampening " +
                   detail::number_text(options.dampening) + ", expected a momentum above 0 and no dampening";
        });
        detail::require_gradients("SGD", parameters);
        if (options.momentum > 0.0) momentum_.resize(detail::entry_count(parameters));
    }

    /// @throws std::invalid_argument when the learning rate is negative or not finite
    void step(double learning_rate) {
        detail::require_at_least_0("SGD", "learning rate", learning_rate);
        const bool averages = !momentum_.empty(), nesterov = options_.nesterov;
        const Factors factors{
            .rate = static_cast<T>(learning_rate),
            .decay = static_cast<T>(options_.weight_decay),
            .momentum = static_cast<T>(options_.momentum),
            .fresh = static_cast<T>(steps_ == 0 ? 1.0 : 1.0 - options_.dampening),
            .direct = static_cast<T>(nesterov ? 1.0 : 0.0),
            .averaged = static_cast<T>(nesterov ? options_.momentum : 1.0),
        };
        detail::parallel_entries(
            parameters_, averages ? 2.0 : 1.0,
            [&](const Parameter<T>& parameter, std::size_t first, std::size_t count, std::size_t at) {
                T* value = parameter.value.data() + first;
                const T* gradient = parameter.gradient.data() + first;
                if (averages) update_entries(factors, value, gradient, momentum_.data() + at, count);
                else update_entries(factors, value, gradient, count);
            });
        ++steps_;
    }

    std::uint64_t steps() const { return steps_; }
    void resume(std::uint64_t steps) { steps_ = steps; }

    /// "momentum.<parameter>"; nothing without momentum.
    std::vector<NamedTensor<T>> state() {
        std::vector<NamedTensor<T>> tensors;
        detail::append_named(tensors, "momentum", parameters_, momentum_);
        return tensors;
    }

private:
    struct Factors {
        T rate, decay, momentum, fresh;
        T direct, averaged;  // of g and of b, in what is stepped along
    };

    static void update_entries(Factors f, T* value, const T* gradient, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) value[i] -= f.rate * (gradient[i] + f.decay * value[i]);
    }
    static void update_entries(Factors f, T* value, const T* gradient, T* average, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            const T g = gradient[i] + f.decay * value[i], b = f.momentum * average[i] + f.fresh * g;
            average[i] = b;
            value[i] -= f.rate * (f.direct * g + f.averaged * b);
        }
    }

    ParameterList<T> parameters_;
    SGDOptions options_;
    std::vector<T> momentum_;  // a row of entries, or empty
    std::uint64_t steps_ = 0;
};

}  // namespace normplace

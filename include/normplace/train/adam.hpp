// SPDX-License-Identifier: BSD-3-Clause
//
// Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1) and AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101,
// algorithm 2), as PyTorch's Adam and AdamW define them.
#pragma once

#include <cmath>

#include <normplace/train/moments.hpp>

namespace normplace {

/// Adam's options that make it AdamW: `Adam<float> optimizer(parameters, adam_w());`
inline AdamOptions adam_w(double weight_decay = 0.01) {
    return {.weight_decay = weight_decay, .decoupled_weight_decay = true};
}

/// With gradient G of W, at learning rate eta, in step t = 1, 2, ...:
///
///     g = G + lambda W                         AdamW instead:  g = G,  W = (1 - eta lambda) W
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     W = W - eta m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
template <class T>
class Adam : public detail::MomentOptimizer<T> {
public:
    /// @throws std::invalid_argument when an option is out of its range, or a gradient has not its parameter's size
    explicit Adam(const ParameterList<T>& parameters, const AdamOptions& options = {})
        : detail::MomentOptimizer<T>("Adam", parameters, options) {}

    /// @throws std::invalid_argument when the learning rate is negative or not finite
    void step(double learning_rate) {
        detail::require_at_least_0("Adam", "learning rate", learning_rate);
        const AdamOptions& options = this->options_;
        const double t = static_cast<double>(this->steps() + 1), correction = 1.0 - std::pow(options.beta1, t),
                     root = std::sqrt(1.0 - std::pow(options.beta2, t));
        this->update(learning_rate, learning_rate * root / correction, {true, options.epsilon * root});
    }
};

}  // namespace normplace

// SPDX-License-Identifier: BSD-3-Clause
//
// RAdam (Liu et al. 2020, arXiv:1908.03265, algorithm 2): Adam whose step is made smaller as long as the average of
// squares is over so few gradients that its variance is large, which takes the place of a warm-up.
#pragma once

#include <cmath>

#include <normplace/train/moments.hpp>

namespace normplace {

/// m and v as Adam's. In step t = 1, 2, ..., with
///
///     rho_inf = 2 / (1 - beta2) - 1
///     rho     = rho_inf - 2 t beta2^t / (1 - beta2^t)
///     r       = sqrt((rho - 4) (rho - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho)):
///
///     W = W - eta r m / (1 - beta1^t) sqrt(1 - beta2^t) / (sqrt(v) + epsilon)     where rho > 5
///     W = W - eta m / (1 - beta1^t)                                               otherwise
///
/// The threshold 5 and the place of epsilon are those of PyTorch's RAdam; the paper has 4 and no epsilon. With the
/// default beta2 the first five steps have no divisor: they are as large as the gradient makes them.
template <class T>
class RAdam : public detail::MomentOptimizer<T> {
public:
    /// @throws std::invalid_argument when an option is out of its range, or a gradient has not its parameter's size
    explicit RAdam(const ParameterList<T>& parameters, const AdamOptions& options = {})
        : detail::MomentOptimizer<T>("RAdam", parameters, options) {}

    /// @throws std::invalid_argument when the learning rate is negative or not finite
    void step(double learning_rate) {
        detail::require_at_least_0("RAdam", "learning rate", learning_rate);
        const AdamOptions& options = this->options_;
        const double t = static_cast<double>(this->steps() + 1), power = std::pow(options.beta2, t),
                     size = learning_rate / (1.0 - std::pow(options.beta1, t)),
                     rho_inf = 2.0 / (1.0 - options.beta2) - 1.0, rho = rho_inf - 2.0 * t * power / (1.0 - power);
        if (rho > 5.0) {
            const double r = std::sqrt((rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho));
            this->update(learning_rate, size * r * std::sqrt(1.0 - power), {true, options.epsilon});
        } else {
            this->update(learning_rate, size, {false});
        }
    }
};

}  // namespace normplace

// SPDX-License-Identifier: BSD-3-Clause
//
// What the first step of an optimizer does to one parameter w with gradient g:
//
//     w <- (1 - eta weight_decay) w - eta update(g)
//
// Adam's bias correction makes both of its averages the gradient's own, so its first step is the gradient's sign,
// softened where |g| is not large against eps: g / (|g| + eps).
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

namespace normplace {

struct StepRule {
    std::string name = "adam";
    bool sign = true;           ///< Adam's step; otherwise the gradient itself
    double epsilon = 1e-8;      ///< Adam's
    double weight_decay = 0.0;  ///< decoupled, as AdamW's
    double momentum = 0.0;      ///< SGD's
    bool nesterov = false;
    bool vectors = true;  ///< whether biases and the gains and biases of norms take the step, too

    /// Kingma and Ba 2015, arXiv:1412.6980.
    static StepRule adam(double epsilon = 1e-8) { return adam_like("adam", 0.0, epsilon); }
    /// Loshchilov and Hutter 2019, arXiv:1711.05101.
    static StepRule adam_w(double weight_decay = 0.01, double epsilon = 1e-8) {
        return adam_like("adamw", weight_decay, epsilon);
    }
    static StepRule sgd(double momentum = 0.0, bool nesterov = false) {
        if (!(momentum >= 0.0 && momentum < 1.0))
            throw std::invalid_argument("StepRule: momentum is " + std::to_string(momentum) +
                                        ", expected a number in [0, 1)");
        return {"sgd", false, 0.0, 0.0, momentum, nesterov, true};
    }

    /// A momentum buffer starts as the gradient itself, so that only Nesterov's look ahead shows in the first step.
    double factor() const { return nesterov ? 1.0 + momentum : 1.0; }
    double update(double gradient) const {
        if (!sign) return factor() * gradient;
        return gradient == 0.0 ? 0.0 : gradient / (std::abs(gradient) + epsilon);
    }

private:
    static StepRule adam_like(const char* name, double weight_decay, double epsilon) {
        const auto at_least_zero = [](const char* what, double value) {
            if (!(value >= 0.0 && value - value == 0.0))
                throw std::invalid_argument(std::string("StepRule: ") + what + " is " + std::to_string(value) +
                                            ", expected a finite number of at least 0");
        };
        at_least_zero("epsilon", epsilon);
        at_least_zero("weight_decay", weight_decay);
        return {name, true, epsilon, weight_decay, 0.0, false, true};
    }
};

}  // namespace normplace

// SPDX-License-Identifier: BSD-3-Clause
//
// How unevenly a feed-forward's gradient is spread over its hidden units. A unit's pre-activations are Gaussian over
// units and correlate over tokens by rho: sqrt(rho) t + sqrt(1 - rho) z_i with one t for the unit. Where tokens are
// alike a ReLU is on for all of them or for none, and half of the entries of the gradients of W_1 and W_2 are 0, of
// which a sign makes nothing. With w the share of the gradient that all tokens pull together, the variance of a unit's
// entries goes as
//
//     v(t) = w E[psi | t]^2 + (1 - w) E[psi^2 | t],   psi = phi' for W_1 and phi for W_2,
//
// and a sign step's pull as E sqrt(v) / sqrt(E v): 1 for units that are alike, sqrt(1/2) for a ReLU and tokens that
// are.
#pragma once

#include <cmath>

#include <normplace/placement/activation.hpp>

namespace normplace {

struct SpreadOverUnits {
    double derivative = 1.0;  ///< of W_1
    double value = 1.0;       ///< of W_2
};

/// @param q second moment of the pre-activations
/// @param rho their mean correlation between tokens
/// @param together w
inline SpreadOverUnits spread_over_units(const Activation& activation, double q, double rho, double together) {
    if (!(q > 0.0) || !std::isfinite(q)) return {};
    rho = std::fmin(std::fmax(rho, 0.0), 1.0);
    together = std::fmin(std::fmax(together, 0.0), 1.0);
    const double common = std::sqrt(q * rho), own = std::sqrt(q * (1.0 - rho));
    constexpr double step = 0.1, end = 5.0;
    double value_root = 0.0, value_square = 0.0, derivative_root = 0.0, derivative_square = 0.0;
    for (double t = -end + 0.5 * step; t < end; t += step) {
        double value = 0.0, value2 = 0.0, derivative = 0.0, derivative2 = 0.0;
        for (double z = -end + 0.5 * step; z < end; z += step) {
            const double weight = std::exp(-0.5 * z * z) * step * 0.39894228040143267794;
            const double u = common * t + own * z, phi = activation.value(u), slope = activation.derivative(u);
            value += weight * phi;
            value2 += weight * phi * phi;
            derivative += weight * slope;
            derivative2 += weight * slope * slope;
        }
        const double weight = std::exp(-0.5 * t * t) * step * 0.39894228040143267794;
        const double v = together * value * value + (1.0 - together) * value2;
        const double d = together * derivative * derivative + (1.0 - together) * derivative2;
        value_root += weight * std::sqrt(v);
        value_square += weight * v;
        derivative_root += weight * std::sqrt(d);
        derivative_square += weight * d;
    }
    return {derivative_square > 0.0 ? derivative_root / std::sqrt(derivative_square) : 1.0,
            value_square > 0.0 ? value_root / std::sqrt(value_square) : 1.0};
}

}  // namespace normplace

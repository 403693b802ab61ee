// SPDX-License-Identifier: BSD-3-Clause
//
// One optimizer step of a weight matrix, seen from the function that it computes. The step is -eta u(g), entry by
// entry, and g = sum_i g_i x_i^T. What of u(g) is proportional to g pulls all tokens along the old gradients; the rest
// is noise.
#pragma once

#include <algorithm>
#include <cmath>

#include <normplace/analysis/step_rule.hpp>

namespace normplace {

/// An entry's update u, as new tokens see it. Along the old gradients it acts as pull g. Across them all of it is
/// noise: g = sum_i g_i x_i^T meets a new token by the mean of x_i.x'_j, which the pull carries, and by its
/// fluctuation.
struct StepDecomposition {
    double pull = 0.0;   ///< E[u g] / E[g^2]
    double noise = 0.0;  ///< E u^2
};

/// For gradient entries of second moment `square`. An entry is Gaussian only for a given input, and its variance is a
/// quadratic form in that input, `square` times a chi-square of `freedom` degrees over its mean. freedom is infinite
/// for entries that are Gaussian themselves.
///
/// Without eps: pull = c / sigma and noise = 1 - c^2, c = E|g| / sigma = sqrt(2/pi) sqrt(2/nu) Gamma((nu+1)/2) /
/// Gamma(nu/2), from 2/pi at nu = 1 to sqrt(2/pi).
inline StepDecomposition decompose_step(const StepRule& rule, double square, double freedom) {
    if (!rule.sign) return {rule.factor(), rule.factor() * rule.factor() * square};
    if (!(square > 0.0)) return {};
    constexpr double normal = 0.79788456080286535588;  // sqrt(2/pi)
    const double sigma = std::sqrt(square), nu = std::fmax(freedom, 1.0);
    const double half = 0.5 * nu;
    const double shrink = nu > 1e6 ? 1.0 : std::exp(std::lgamma(half + 0.5) - std::lgamma(half)) / std::sqrt(half);
    if (rule.epsilon < 1e-6 * sigma) {
        const double c = normal * shrink;
        return {c / sigma, 1.0};
    }
    // With eps: over z ~ N(0, 1) and t, the root of the chi-square over its mean.
    const double relative = rule.epsilon / sigma;
    double total = 0.0, along = 0.0, whole = 0.0;
    constexpr double step = 0.05;
    const bool spread = nu < 1e3;
    for (double log_t = spread ? -12.0 / std::sqrt(nu) : 0.0; log_t <= (spread ? 2.0 : 0.0); log_t += step) {
        const double t = std::exp(log_t), weight = spread ? std::exp(nu * (log_t - 0.5 * (t * t - 1.0))) : 1.0;
        total += weight;
        for (double z = 0.5 * step; z < 8.0; z += step) {
            const double density = 2.0 * std::exp(-0.5 * z * z) * 0.39894228040143267794 * step * weight;
            const double size = t * z, u = size / (size + relative);
            along += density * u * size;
            whole += density * u * u;
        }
    }
    along /= total;
    whole /= total;
    return {along / sigma, whole};
}

}  // namespace normplace

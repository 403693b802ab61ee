// SPDX-License-Identifier: BSD-3-Clause
//
// Xiong et al. 2020 (On Layer Normalization in the Transformer Architecture, arXiv:2002.04745): the paper's own
// statements as functions, as stated, to stand beside prediction (predict.hpp) and measurement.
//
// Their model: one head, W_q = W_k = 0 (attention is the plain average of n tokens), no W_o; W_v, W_1, W_2 are d x d
// with entries N(0, 1/d); biases 0, norm gain 1; tokens N(0, I_d); L layers, l counted from 1. ReferenceModel::paper
// builds it. Squared norms are sums over the d entries of one token's vector, in units of (activation)^2.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace normplace::paper {

namespace detail {
inline void require(bool condition, const char* function, const std::string& sentence) {
    if (!condition) throw std::invalid_argument("paper::" + std::string(function) + ": " + sentence);
}
inline void require_positive(const char* function, const char* what, std::size_t value) {
    require(value > 0, function, std::string(what) + " is 0, expected at least 1");
}
inline void require_layer(const char* function, std::size_t layer, std::size_t layers) {
    require(layer >= 1 && layer <= layers, function,
            "layer " + std::to_string(layer) + " is not one of the layers 1 to " + std::to_string(layers));
}
inline void require_bounded(const char* function, double epsilon, double delta) {
    require(epsilon > 0.0, function, "epsilon " + std::to_string(epsilon) + " is not positive");
    require(delta >= 0.0 && delta <= 1.0, function, "delta " + std::to_string(delta) + " is not within [0, 1]");
}
}  // namespace detail

/// Lemma 1: E ||ReLU(X)||^2 = s^2 d / 2 for X ~ N(0, s^2 I_d).
/// @throws std::invalid_argument when `width` (d) is 0 or `standard_deviation` (s) is negative
inline double lemma1(std::size_t width, double standard_deviation = 1.0) {
    detail::require_positive("lemma1", "width", width);
    detail::require(standard_deviation >= 0.0, "lemma1",
                    "standard deviation " + std::to_string(standard_deviation) + " is negative or not a number");
    return standard_deviation * standard_deviation * static_cast<double>(width) / 2.0;
}

/// Lemma 2, Post-LN: E ||x^{post,5}||^2 = (3/2) d, the sum before the feed-forward's norm, in every layer.
/// @throws std::invalid_argument when `width` is 0
inline double lemma2_post_ln(std::size_t width) {
    detail::require_positive("lemma2_post_ln", "width", width);
    return 1.5 * static_cast<double>(width);
}

struct Bounds {
    double lower, upper;
};

/// Lemma 2, Pre-LN: (1 + l/2) d <= E ||x_l||^2 <= (1 + 3l/2) d, with x_l the stream after l layers. Where inside it
/// lies depends on the number of tokens n, through their alignment: predict<PreLN>(ReferenceModel::paper(L, d, n)) has
/// it.
/// @throws std::invalid_argument when `width` is 0
inline Bounds lemma2_pre_ln(std::size_t width, std::size_t layer) {
    detail::require_positive("lemma2_pre_ln", "width", width);
    const double d = static_cast<double>(width), l = static_cast<double>(layer);
    return {(1.0 + l / 2.0) * d, (1.0 + 3.0 * l / 2.0) * d};
}

namespace detail {
/// x centred, and its norm.
inline double centre(const char* function, const std::vector<double>& x, std::vector<double>& y) {
    require(!x.empty(), function, "x has 0 entries, expected at least 1");
    double mean = 0.0, square = 0.0;
    for (const double entry : x) mean += entry / static_cast<double>(x.size());
    for (const double entry : x) {
        y.push_back(entry - mean);
        square += y.back() * y.back();
    }
    require(square > 0.0, function,
            "all " + std::to_string(x.size()) + " entries of x are " + std::to_string(x[0]) +
                ", where layer norm without epsilon has no Jacobian");
    return std::sqrt(square);
}
}  // namespace detail

/// Lemma 3: J(x) = (sqrt(d) / ||y||) (I - y y^T / ||y||^2) (I - 1 1^T / d), y = x centred: the Jacobian of layer norm,
/// d x d row-major, J_ij = d LN(x)_i / d x_j.
/// @throws std::invalid_argument when x is empty or constant
inline std::vector<double> lemma3_jacobian(const std::vector<double>& x) {
    std::vector<double> y;
    const double norm = detail::centre("lemma3_jacobian", x, y), d = static_cast<double>(x.size());
    std::vector<double> jacobian(x.size() * x.size());
    // y is orthogonal to 1, so the product of the two projections is one subtraction.
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t j = 0; j < x.size(); ++j)
            jacobian[i * x.size() + j] =
                std::sqrt(d) / norm * ((i == j ? 1.0 : 0.0) - 1.0 / d - y[i] * y[j] / (norm * norm));
    return jacobian;
}

/// Lemma 3: the Jacobian's spectral norm sqrt(d) / ||y|| = O(sqrt(d) / ||x||); 0 for d <= 2, where both projections
/// leave nothing.
/// @throws std::invalid_argument when x is empty or constant
inline double lemma3_spectral_norm(const std::vector<double>& x) {
    std::vector<double> y;
    const double norm = detail::centre("lemma3_spectral_norm", x, y);
    return x.size() > 2 ? std::sqrt(static_cast<double>(x.size())) / norm : 0.0;
}

/// Definition 1: Z >= 0 is (epsilon, delta)-bounded if (Z - E Z)/E Z <= epsilon with probability 1 - delta or more. For
/// Z = ||Y||^2, Y ~ N(0, I_d), 0 < epsilon < 1: delta = exp(-d epsilon^2 / 8).
/// @throws std::invalid_argument when `width` is 0 or epsilon is not within (0, 1)
inline double definition1_delta(std::size_t width, double epsilon) {
    detail::require_positive("definition1_delta", "width", width);
    detail::require(epsilon > 0.0 && epsilon < 1.0, "definition1_delta",
                    "epsilon " + std::to_string(epsilon) + " is not within (0, 1)");
    return std::exp(-static_cast<double>(width) * epsilon * epsilon / 8.0);
}

/// The probability with which Theorem 1's bounds hold, 0.99 - delta - epsilon/(0.9 + epsilon) or more, when the hidden
/// norms are (epsilon, delta)-bounded. Not above 0 means that the theorem says nothing.
/// @throws std::invalid_argument when epsilon is not positive or delta not within [0, 1]
inline double theorem1_probability(double epsilon, double delta) {
    detail::require_bounded("theorem1_probability", epsilon, delta);
    return 0.99 - delta - epsilon / (0.9 + epsilon);
}

/// Theorem 1, Post-LN: ||dLoss/dW_2||_F of the last layer is O(d sqrt(ln d)); with the constants of the proof (alpha_0
/// = 1/10), at most G d sqrt((40/3) ln(100 d)), where G = max_i ||dLoss_i/dx_i|| over positions.
/// @throws std::invalid_argument when `width` is 0 or `output_gradient` (G) is negative
inline double theorem1_post_ln(std::size_t width, double output_gradient = 1.0) {
    detail::require_positive("theorem1_post_ln", "width", width);
    detail::require(output_gradient >= 0.0, "theorem1_post_ln",
                    "output gradient " + std::to_string(output_gradient) + " is negative or not a number");
    const double d = static_cast<double>(width);
    return output_gradient * d * std::sqrt(40.0 / 3.0 * std::log(100.0 * d));
}

/// Theorem 1, Pre-LN: O(d sqrt(ln d / L)); with the constants of the proof, G d sqrt(20 ln(100 d) / (1 + L/2)).
/// @throws std::invalid_argument when `width` or `layers` is 0 or `output_gradient` is negative
inline double theorem1_pre_ln(std::size_t width, std::size_t layers, double output_gradient = 1.0) {
    detail::require_positive("theorem1_pre_ln", "width", width);
    detail::require_positive("theorem1_pre_ln", "layers", layers);
    detail::require(output_gradient >= 0.0, "theorem1_pre_ln",
                    "output gradient " + std::to_string(output_gradient) + " is negative or not a number");
    const double d = static_cast<double>(width);
    return output_gradient * d * std::sqrt(20.0 * std::log(100.0 * d) / (1.0 + static_cast<double>(layers) / 2.0));
}

/// What the last layer's ||dLoss/dW_2||_F is, to leading order, in the very model of Theorem 1 for Post-LN: G
/// sqrt(d/(3n)), for n tokens whose output gradients are independent. Not in the paper, whose bound is above it by more
/// than sqrt(d).
/// @throws std::invalid_argument when `width` or `sequence` (n) is 0
inline double tight_post_ln(std::size_t width, std::size_t sequence, double output_gradient = 1.0) {
    detail::require_positive("tight_post_ln", "width", width);
    detail::require_positive("tight_post_ln", "sequence", sequence);
    return output_gradient * std::sqrt(static_cast<double>(width) / (3.0 * static_cast<double>(sequence)));
}

/// The same for Pre-LN: G sqrt(d / (2 n s)), s = E ||x_{L+1}||^2 / d the second moment that reaches the final norm.
/// @throws std::invalid_argument when `width` or `sequence` is 0 or `second_moment` (s) is not positive
inline double tight_pre_ln(std::size_t width, std::size_t sequence, double second_moment,
                           double output_gradient = 1.0) {
    detail::require_positive("tight_pre_ln", "width", width);
    detail::require_positive("tight_pre_ln", "sequence", sequence);
    detail::require(second_moment > 0.0, "tight_pre_ln",
                    "second moment " + std::to_string(second_moment) + " is not positive");
    return output_gradient *
           std::sqrt(static_cast<double>(width) / (2.0 * static_cast<double>(sequence) * second_moment));
}

/// The extension to all layers (which the paper calls preliminary), Post-LN: the gradient of layer l is the last one's
/// times (2/3)^((L-l)/2). Measurement disagrees: the profile is about flat, because the branch Jacobians that the
/// sketch drops cancel the norm's shrinkage, (1 + 1/2)(2/3) = 1.
/// @throws std::invalid_argument unless 1 <= layer <= layers
inline double extension_post_ln(std::size_t layer, std::size_t layers) {
    detail::require_layer("extension_post_ln", layer, layers);
    return std::pow(2.0 / 3.0, static_cast<double>(layers - layer) / 2.0);
}

/// The extension, Pre-LN: gradients do not depend on l, factor 1. Measurement disagrees: they fall like l^(-1/2).
/// @throws std::invalid_argument unless 1 <= layer <= layers
inline double extension_pre_ln(std::size_t layer, std::size_t layers) {
    detail::require_layer("extension_pre_ln", layer, layers);
    return 1.0;
}

}  // namespace normplace::paper

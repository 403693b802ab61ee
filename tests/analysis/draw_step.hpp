// SPDX-License-Identifier: BSD-3-Clause
//
// A step taken by explicit random matrices, for token vectors and output gradients of given covariances: what the
// moments of step_sublayer.hpp and step_moments.hpp are compared with.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <normplace/analysis/step_sublayer.hpp>
#include <random>
#include <string>
#include <vector>

#include "dense_tokens.hpp"

namespace draw_step {

using namespace dense_tokens;
using normplace::CrossedKernel;
using normplace::Crossing;
using normplace::TokenKernel;
using normplace::TokenLayout;

inline constexpr std::size_t batch = 4, sequence = 3, tokens = batch * sequence;

inline TokenKernel compress(const TokenLayout& layout, const Dense& dense) {
    TokenKernel result(layout.entries());
    layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) { result[e] = dense[i][j]; });
    return result;
}

/// The covariances of what is drawn: component by component, x = mixing z and g = gradient_mixing z'. The rows of
/// `mixing` are the old tokens, then the new ones.
struct Covariances {
    /// @param strangers the new tokens share nothing with the old ones
    explicit Covariances(bool causal = true, bool strangers = false)
        : mixing(zeros(tokens + sequence, 8 + tokens + sequence)),
          gradient_mixing(zeros(tokens, 2 + tokens)),
          crossing(TokenLayout::by_token(batch, sequence), causal),
          next(sequence * sequence),
          crossed(tokens * sequence) {
        for (std::size_t i = 0; i < tokens + sequence; ++i) {
            const std::size_t first = strangers && i >= tokens ? 4 : 0;
            mixing[i][first] = 0.5;  // what all share
            for (std::size_t k = 1; k < 4; ++k) mixing[i][first + k] = 0.4 * number(50 * i + k);
            mixing[i][8 + i] = 0.7;
        }
        for (std::size_t i = 0; i < tokens; ++i) {
            gradient_mixing[i][0] = 0.3;
            gradient_mixing[i][1] = 0.3 * number(9 * i);
            gradient_mixing[i][2 + i] = 0.6;
        }
        const Dense all = product(mixing, transposed(mixing));
        old = compress(crossing.before(), all);
        gradient = compress(crossing.before(), product(gradient_mixing, transposed(gradient_mixing)));
        for (std::size_t i = 0; i < sequence; ++i)
            for (std::size_t j = 0; j < sequence; ++j) next[i * sequence + j] = all[tokens + i][tokens + j];
        for (std::size_t i = 0; i < tokens; ++i)
            for (std::size_t j = 0; j < sequence; ++j) crossed[i * sequence + j] = all[i][tokens + j];
    }
    Dense mixing, gradient_mixing;
    Crossing crossing;
    TokenKernel old, gradient, next;
    CrossedKernel crossed;
};

inline Dense rows(const Dense& x, std::size_t first, std::size_t count) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
    return Dense(begin, begin + static_cast<std::ptrdiff_t>(count));
}
inline double dot(const std::vector<double>& x, const std::vector<double>& y) {
    const double *a = x.data(), *b = y.data();
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += a[i] * b[i];
    return sum;
}

class Drawing {
public:
    explicit Drawing(unsigned seed) : random_(seed) {}
    /// `scale` is the fan-in times the variance.
    Dense matrix(std::size_t rows, std::size_t columns, double scale) {
        Dense result = zeros(rows, columns);
        const double deviation = std::sqrt(scale / static_cast<double>(columns));
        for (auto& row : result)
            for (double& entry : row) entry = deviation * normal_(random_);
        return result;
    }
    /// Vectors of these covariances, or of just these: then the latent ones are made orthogonal, which takes most of
    /// the noise away.
    Dense vectors(const Dense& mixing, std::size_t components, bool just) {
        Dense latent = matrix(mixing[0].size(), components, static_cast<double>(components));
        for (std::size_t i = 0; just && i < latent.size(); ++i) {
            for (std::size_t k = 0; k < i; ++k) {
                const double along = dot(latent[i], latent[k]) / static_cast<double>(components);
                for (std::size_t c = 0; c < components; ++c) latent[i][c] -= along * latent[k][c];
            }
            const double size = std::sqrt(dot(latent[i], latent[i]) / static_cast<double>(components));
            for (double& entry : latent[i]) entry /= size;
        }
        return product(mixing, latent);
    }

private:
    std::mt19937_64 random_;
    std::normal_distribution<double> normal_;
};

/// W x + b of each token.
inline Dense apply(const Dense& matrix, const Dense& x, const std::vector<double>& bias = {}) {
    Dense result = zeros(x.size(), matrix.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t r = 0; r < matrix.size(); ++r)
            result[i][r] = dot(matrix[r], x[i]) + (bias.empty() ? 0.0 : bias[r]);
    return result;
}
inline Dense rectified(Dense x) {
    for (auto& row : x)
        for (double& entry : row) entry = std::fmax(entry, 0.0);
    return x;
}
inline Dense plus(Dense x, const Dense& y, double factor = 1.0) {
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t c = 0; c < x[i].size(); ++c) x[i][c] += factor * y[i][c];
    return x;
}
/// Mean over components of x_i y_j.
inline Dense overlap(const Dense& x, const Dense& y) {
    Dense result = product(x, transposed(y));
    for (auto& row : result)
        for (double& entry : row) entry /= static_cast<double>(x[0].size());
    return result;
}
/// x_j - sum_i a_ij g_i.
inline Dense pulled_along(const Dense& x, const CrossedKernel& amplitude, const Dense& g) {
    Dense result = x;
    for (std::size_t i = 0; i < g.size(); ++i)
        for (std::size_t j = 0; j < x.size(); ++j)
            for (std::size_t c = 0; c < x[j].size(); ++c) result[j][c] -= amplitude[i * x.size() + j] * g[i][c];
    return result;
}

/// Mean of some numbers over draws, and its standard error.
class Sample {
public:
    void add(const Dense& x) {
        std::size_t at = 0;
        for (const auto& row : x)
            for (const double value : row) {
                if (at == sum_.size()) sum_.push_back(0.0), square_.push_back(0.0);
                sum_[at] += value, square_[at++] += value * value;
            }
        count_ += 1.0;
    }
    std::size_t size() const { return sum_.size(); }
    double mean(std::size_t i) const { return sum_[i] / count_; }
    /// Of one entry, as it is on average over entries: a few draws give that of one entry badly.
    double error() const {
        double sum = 0.0;
        for (std::size_t i = 0; i < size(); ++i) sum += square_[i] / count_ - mean(i) * mean(i);
        return std::sqrt(sum / static_cast<double>(size()) / (count_ - 1.0));
    }

private:
    std::vector<double> sum_, square_;
    double count_ = 0.0;
};

/// A matrix, its bias, and their gradients sum_i g_i x_i^T and sum_i g_i.
struct Trained {
    Dense weight, weight_gradient;
    std::vector<double> bias, bias_gradient;

    void differentiate(const Dense& g, const Dense& x) {
        weight_gradient = product(transposed(g), x);
        bias.assign(weight.size(), 0.0);
        bias_gradient.assign(weight.size(), 0.0);
        for (const auto& token : g)
            for (std::size_t r = 0; r < token.size(); ++r) bias_gradient[r] += token[r];
    }
    Trained after(const normplace::StepRule& rule, double eta) const {
        Trained result = *this;
        const double kept = 1.0 - eta * rule.weight_decay;
        for (std::size_t r = 0; r < weight.size(); ++r) {
            for (std::size_t c = 0; c < weight[r].size(); ++c)
                result.weight[r][c] = kept * weight[r][c] - eta * rule.update(weight_gradient[r][c]);
            result.bias[r] = kept * bias[r] - eta * rule.update(bias_gradient[r]);
        }
        return result;
    }
    Dense operator()(const Dense& x) const { return apply(weight, x, bias); }
};

/// What an update of these gradients is made of, measured: so that what follows tests the step alone, and not how well
/// decompose_step knows the gradients' distribution (trained_matrix.cpp).
class Decomposition {
public:
    explicit Decomposition(const normplace::StepRule& rule) : rule_(rule) {}
    void add(const Dense& gradient) {
        for (const auto& row : gradient) add(row);
    }
    void add(const std::vector<double>& gradient) {
        for (const double g : gradient) {
            const double u = rule_.update(g);
            along_ += u * g, gradient_ += g * g, update_ += u * u, count_ += 1.0;
        }
    }
    normplace::StepDecomposition get() const {
        if (!(gradient_ > 0.0)) return {};
        return {along_ / gradient_, update_ / count_};
    }

private:
    normplace::StepRule rule_;
    double along_ = 0.0, gradient_ = 0.0, update_ = 0.0, count_ = 0.0;
};
struct MatrixDecomposition {
    explicit MatrixDecomposition(const normplace::StepRule& rule) : weight(rule), bias(rule) {}
    void add(const Trained& matrix) { weight.add(matrix.weight_gradient), bias.add(matrix.bias_gradient); }
    normplace::MatrixStep get(double scale, double fan_in) const { return {scale, fan_in, weight.get(), bias.get()}; }
    Decomposition weight, bias;
};

/// What SteppedActivations predicts of one place.
struct Measured {
    Sample covariance, change, crossed, pulled;
    /// @param before what the new tokens are without the step
    void add(const Dense& old, const Dense& before, const Dense& after, const Dense& g) {
        const Dense moved = plus(after, before, -1.0);
        covariance.add(overlap(after, after));
        change.add(overlap(moved, moved));
        crossed.add(overlap(old, after));
        pulled.add(overlap(g, moved));  // -G a, as what else moves is independent of g
    }
};

inline void check_same(const std::string& what, const Sample& sample, const Dense& predicted, double tolerance) {
    std::size_t at = 0;
    double largest = 0.0;
    for (const auto& row : predicted)
        for (const double value : row) largest = std::fmax(largest, std::fabs(value));
    for (const auto& row : predicted)
        for (const double value : row) {
            CAPTURE(what);
            CAPTURE(at);
            CAPTURE(value);
            CAPTURE(sample.mean(at));
            const double error = std::fabs(sample.mean(at++) - value);
            CHECK(error < 4.0 * sample.error() + tolerance * largest);
        }
}

/// @param gradient that of the old tokens at this place
/// @param tolerance relative to the largest entry, beside four standard errors
inline void check_same(const Measured& measured, const normplace::SteppedActivations& predicted,
                       const Crossing& crossing, const TokenKernel& gradient, double tolerance) {
    Dense pulled = product(expand(crossing.before(), gradient), expand_crossed(crossing, predicted.amplitude));
    for (auto& row : pulled)
        for (double& entry : row) entry = -entry;
    check_same("covariance", measured.covariance, expand(crossing.after(), predicted.covariance), tolerance);
    check_same("change", measured.change, expand(crossing.after(), predicted.change), tolerance);
    check_same("crossed", measured.crossed, expand_crossed(crossing, predicted.crossed), tolerance);
    check_same("pulled", measured.pulled, pulled, tolerance);
}

}  // namespace draw_step

// SPDX-License-Identifier: BSD-3-Clause
//
// What an activation phi does to a pair of Gaussian pre-activations (u1, u2) with second moments q1, q2 and covariance
// p: kappa = E phi(u1) phi(u2) and kappa' = E phi'(u1) phi'(u2). Closed forms for ReLU (Cho and Saul 2009) and GELU;
// the Hermite series for any other.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <normplace/analysis/interpolation.hpp>
#include <normplace/placement/activation.hpp>

namespace normplace {

struct KernelPair {
    double value;       ///< kappa
    double derivative;  ///< kappa'
};

namespace detail {

inline constexpr double pi = 3.14159265358979323846;

/// With r = p / sqrt(q1 q2): kappa = sqrt(q1 q2)/(2 pi) [sqrt(1 - r^2) + r (pi - acos r)], kappa' = 1/4 + asin(r)/(2
/// pi).
inline KernelPair relu_kernel(double q1, double q2, double p) {
    const double scale = std::sqrt(q1 * q2);
    if (!(scale > 0.0)) return {scale, 0.25};
    const double r = std::fmax(-1.0, std::fmin(p / scale, 1.0)), angle = std::asin(r);
    return {scale / (2.0 * pi) * (std::sqrt(1.0 - r * r) + r * (0.5 * pi + angle)), 0.25 + angle / (2.0 * pi)};
}

/// With P = (1 + q1)(1 + q2), D = sqrt(P - p^2), t = atan2(p, D):
/// kappa = [(p^2 + q1 q2 D^2)/(P D) + p t]/(2 pi) + p/4, kappa' = (1/D^2 + (1 - q1 q2)/P + 1) p/(2 pi D) + 1/4 + t/(2
/// pi).
inline KernelPair gelu_kernel(double q1, double q2, double p) {
    const double product = (1.0 + q1) * (1.0 + q2), squared = product - p * p, root = std::sqrt(squared);
    const double angle = std::atan2(p, root);
    return {((p * p + q1 * q2 * squared) / (product * root) + p * angle) / (2.0 * pi) + 0.25 * p,
            (1.0 / squared + (1.0 - q1 * q2) / product + 1.0) * p / (2.0 * pi * root) + 0.25 + angle / (2.0 * pi)};
}

/// phi(sqrt(q) z) = sum_k a_k h_k(z) in normalised Hermite polynomials, and phi' likewise: then kappa = sum_k a_k(q1)
/// a_k(q2) r^k. What the terms beyond the last one hold is known in sum, E phi^2 - sum a_k^2, and stands at the next
/// power.
class HermiteSeries {
public:
    static constexpr std::size_t terms = 48;
    struct Coefficients {
        std::array<double, terms + 1> value{}, derivative{};
    };

    static Coefficients of(const Activation& activation, double q) {
        Coefficients result;
        const double scale = std::sqrt(q);
        constexpr double step = 0.02;
        constexpr int half = 450;
        double value_square = 0.0, derivative_square = 0.0;
        for (int i = -half; i < half; ++i) {
            const double z = (i + 0.5) * step;  // between the grid's points, so that a kink at 0 is not sampled
            const double weight = std::exp(-0.5 * z * z) * step * 0.39894228040143267794;
            const double value = activation.value(scale * z), derivative = activation.derivative(scale * z);
            value_square += weight * value * value;
            derivative_square += weight * derivative * derivative;
            double before = 0.0, h = 1.0;
            for (std::size_t k = 0; k < terms; ++k) {
                result.value[k] += weight * value * h;
                result.derivative[k] += weight * derivative * h;
                const double order = static_cast<double>(k);
                const double next = (z * h - std::sqrt(order) * before) / std::sqrt(order + 1.0);
                before = h;
                h = next;
            }
        }
        for (std::size_t k = 0; k < terms; ++k) {
            value_square -= result.value[k] * result.value[k];
            derivative_square -= result.derivative[k] * result.derivative[k];
        }
        result.value[terms] = std::sqrt(std::fmax(value_square, 0.0));
        result.derivative[terms] = std::sqrt(std::fmax(derivative_square, 0.0));
        return result;
    }

    static KernelPair kernel(const Coefficients& first, const Coefficients& second, double r) {
        KernelPair sum{0.0, 0.0};
        for (std::size_t k = terms + 1; k-- > 0;) {
            sum.value = sum.value * r + first.value[k] * second.value[k];
            sum.derivative = sum.derivative * r + first.derivative[k] * second.derivative[k];
        }
        return sum;
    }
};

}  // namespace detail

/// The kernel of one activation. Second moments repeat from call to call, so the last series are kept.
class ActivationKernel {
public:
    explicit ActivationKernel(const Activation& activation)
        : activation_(activation),
          kind_(activation == relu   ? Kind::relu
                : activation == gelu ? Kind::gelu
                                     : Kind::any) {}

    /// kappa and kappa' at second moments q1, q2 >= 0 and covariance p.
    KernelPair operator()(double q1, double q2, double p) {
        if (kind_ == Kind::relu) return detail::relu_kernel(q1, q2, p);
        if (kind_ == Kind::gelu) return detail::gelu_kernel(q1, q2, p);
        const auto first = series(q1), second = series(q2);
        const double scale = std::sqrt(q1 * q2);
        return detail::HermiteSeries::kernel(kept_[first].coefficients, kept_[second].coefficients,
                                             scale > 0.0 ? std::fmax(-1.0, std::fmin(p / scale, 1.0)) : 1.0);
    }

    /// E phi^4 / (E phi^2)^2 - 1, the relative variance of one unit's square, at second moment q. Interpolated in ln q,
    /// with a relative error of about 1e-5, and constant beyond e^20 and e^-20: only 1/F of it counts.
    double square_variance(double q) {
        if (kind_ == Kind::relu) return 5.0;
        if (!(q > 0.0)) return 0.0;
        constexpr double step = 0.25, largest = 20.0;
        const detail::CubicPlace place =
            detail::cubic_place((largest + std::fmax(-largest, std::fmin(std::log(q), largest))) / step);
        if (place.first + 4 > square_variances_.size()) square_variances_.resize(place.first + 4, -1.0);
        double result = 0.0;
        for (std::size_t i = 0; i < 4; ++i) {
            double& node = square_variances_[place.first + i];
            if (node < 0.0)
                node = integrate_square_variance(std::exp(step * static_cast<double>(place.first + i) - largest));
            result += place.weight[i] * node;
        }
        return result;
    }

private:
    double integrate_square_variance(double q) const {
        constexpr double step = 0.125;
        double square = 0.0, fourth = 0.0;
        for (double z = -8.0 + 0.5 * step; z < 8.0; z += step) {
            const double weight = std::exp(-0.5 * z * z) * step * 0.39894228040143267794;
            const double value = activation_.value(std::sqrt(q) * z), value_square = value * value;
            square += weight * value_square;
            fourth += weight * value_square * value_square;
        }
        return square > 0.0 ? fourth / (square * square) - 1.0 : 0.0;
    }

    enum class Kind { relu, gelu, any };
    struct Kept {
        double q;
        detail::HermiteSeries::Coefficients coefficients;
    };

    std::size_t series(double q) {
        if (last_ < kept_.size() && kept_[last_].q == q) return last_;
        for (std::size_t i = 0; i < kept_.size(); ++i)
            if (kept_[i].q == q) return last_ = i;
        if (kept_.size() >= capacity) kept_.erase(kept_.begin());
        kept_.push_back({q, detail::HermiteSeries::of(activation_, q)});
        return last_ = kept_.size() - 1;
    }

    static constexpr std::size_t capacity = 4096;
    Activation activation_;
    Kind kind_;
    std::vector<Kept> kept_;
    std::vector<double> square_variances_;  // negative where not computed yet
    std::size_t last_ = 0;
};

}  // namespace normplace

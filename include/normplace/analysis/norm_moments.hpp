// SPDX-License-Identifier: BSD-3-Clause
//
// A kind of norm in moments, at its start. Most divide a token by the root of its second moment q, so that q becomes 1:
// LayerNorm, RMSNorm, ScaleNorm, and gains that count from 1. UnitNorm leaves 1/D, CentreNorm q times (D/(D-1))^2,
// which are factors as well. DyT is tanh(alpha u), elementwise, and has a kernel like an activation.
#pragma once

#include <cmath>
#include <limits>

#include <normplace/analysis/activation_kernel.hpp>
#include <normplace/placement/norm_kind.hpp>

namespace normplace {

/// Expected squared gradient norms of a norm's gain and bias.
struct NormSquares {
    double gain = 0.0, bias = 0.0;
};

inline NormSquares sum_of(const NormSquares& a, const NormSquares& b) { return {a.gain + b.gain, a.bias + b.bias}; }

class NormMoments {
public:
    /// What DyT starts with, as NormOptions has it.
    static constexpr double dyt_alpha = 0.5;

    NormMoments(NormKind kind, double width, double epsilon) : kind(kind), width_(width), epsilon_(epsilon) {}

    NormKind kind;

    /// By what a token of second moment q is divided, where it is divided at all.
    double root(double q) const {
        switch (kind) {
            case NormKind::unit_norm: return std::sqrt(width_ * q + epsilon_);
            case NormKind::centre_norm: return width_ > 1.0 ? (width_ - 1.0) / width_ : 1.0;
            default: return std::sqrt(q + epsilon_);
        }
    }
    bool divides_by_size() const { return normplace::divides_by_size(kind); }
    bool is_elementwise() const { return kind == NormKind::dyt; }

    /// Covariance of tanh(alpha u_1) and tanh(alpha u_2), and of their derivatives, from that of u_1 and u_2.
    KernelPair elementwise(double q1, double q2, double p) const {
        constexpr double square = dyt_alpha * dyt_alpha;
        const KernelPair pair = tanh_(square * q1, square * q2, square * p);
        return {pair.value, square * pair.derivative};
    }

    /// What the norm's own parameters have of what D gains and biases would. ScaleNorm's one length has no theory: it
    /// is the gradient's sum along the token, to which norms that follow leave next to nothing. Nor has CentreNorm's
    /// gain: nothing takes away what the loss sends along the hidden state, and all of them see it.
    NormSquares own(const NormSquares& each) const {
        switch (kind) {
            case NormKind::unit_norm: return {0.0, 0.0};
            case NormKind::scale_norm: return {std::numeric_limits<double>::quiet_NaN(), 0.0};
            case NormKind::centre_norm: return {std::numeric_limits<double>::quiet_NaN(), each.bias};
            default: return each;
        }
    }

private:
    struct Tanh {
        static constexpr auto name = "tanh";
        template <class T>
        static T value(T u) {
            return std::tanh(u);
        }
        template <class T>
        static T derivative(T u) {
            const T y = std::tanh(u);
            return T(1) - y * y;
        }
    };

    double width_, epsilon_;
    mutable ActivationKernel tanh_{activation<Tanh>()};
};

}  // namespace normplace

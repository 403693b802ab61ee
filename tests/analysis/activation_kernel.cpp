// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/activation_kernel.hpp>

using namespace normplace;

namespace {

struct UserReLU : ReLU {
    template <class T>
    static T value(T u) {
        return ReLU::value(u);
    }
    template <class T>
    static T derivative(T u) {
        return ReLU::derivative(u);
    }
};
struct UserGELU {
    static constexpr auto name = "user-gelu";
    template <class T>
    static T value(T u) {
        return GELU::value(u);
    }
    template <class T>
    static T derivative(T u) {
        return GELU::derivative(u);
    }
};
struct Tanh {
    static constexpr auto name = "tanh";
    template <class T>
    static T value(T u) {
        return std::tanh(u);
    }
    template <class T>
    static T derivative(T u) {
        return 1 - std::tanh(u) * std::tanh(u);
    }
};

// E phi(u1) phi(u2) and E phi'(u1) phi'(u2) by a two-dimensional midpoint sum: exact to rounding for smooth phi, to
// step^2 at a kink.
KernelPair by_quadrature(const Activation& phi, double q1, double q2, double p) {
    constexpr double step = 0.05;
    const double r = p / std::sqrt(q1 * q2), s = std::sqrt(1.0 - r * r);
    KernelPair sum{0.0, 0.0};
    for (double a = -7.0 + step / 2; a < 7.0; a += step)
        for (double b = -7.0 + step / 2; b < 7.0; b += step) {
            const double weight = std::exp(-0.5 * (a * a + b * b)) * step * step / (2.0 * detail::pi);
            const double u1 = std::sqrt(q1) * a, u2 = std::sqrt(q2) * (r * a + s * b);
            sum.value += weight * phi.value(u1) * phi.value(u2);
            sum.derivative += weight * phi.derivative(u1) * phi.derivative(u2);
        }
    return sum;
}

}  // namespace

TEST_CASE("kappa and kappa' are the expectations they claim to be") {
    const double points[][3] = {{1.0, 1.0, 0.3}, {0.4, 0.4, 0.35}, {2.0, 0.5, -0.6}, {0.7, 1.5, 0.0}};
    constexpr Activation smooth_one = activation<Tanh>();
    for (const auto& [q1, q2, p] : points) {
        CAPTURE(q1);
        CAPTURE(q2);
        CAPTURE(p);
        ActivationKernel gelu_kernel(gelu), relu_kernel(relu), tanh_kernel(smooth_one);
        const KernelPair g = by_quadrature(gelu, q1, q2, p), r = by_quadrature(relu, q1, q2, p),
                         t = by_quadrature(smooth_one, q1, q2, p);
        CHECK(gelu_kernel(q1, q2, p).value == doctest::Approx(g.value).epsilon(1e-9));
        CHECK(gelu_kernel(q1, q2, p).derivative == doctest::Approx(g.derivative).epsilon(1e-9));
        CHECK(tanh_kernel(q1, q2, p).value == doctest::Approx(t.value).scale(1.0).epsilon(1e-6));
        CHECK(tanh_kernel(q1, q2, p).derivative == doctest::Approx(t.derivative).epsilon(1e-6));
        // A kink of slope 1 costs the midpoint sum about step^2 = 2.5e-3 times the density there.
        CHECK(relu_kernel(q1, q2, p).value == doctest::Approx(r.value).scale(1.0).epsilon(1e-3));
    }
}

TEST_CASE("ReLU's kappa' is the probability that both are positive") {
    ActivationKernel kernel(relu);
    CHECK(kernel(1.0, 1.0, 0.0).derivative == doctest::Approx(0.25));
    CHECK(kernel(1.0, 4.0, 1.0).derivative == doctest::Approx(1.0 / 3.0));  // correlation 1/2
    CHECK(kernel(1.0, 1.0, 1.0).derivative == doctest::Approx(0.5));
    CHECK(kernel(1.0, 1.0, -1.0).derivative == doctest::Approx(0.0));
    CHECK(kernel(3.0, 3.0, 3.0).value == doctest::Approx(1.5));
    CHECK(kernel(0.0, 1.0, 0.0).value == 0.0);
}

TEST_CASE("kappa' is the slope of kappa in the covariance (Price's theorem)") {
    constexpr Activation tanh_activation = activation<Tanh>();
    for (const Activation& phi : {relu, gelu, tanh_activation}) {
        ActivationKernel kernel(phi);
        for (const double p : {-0.5, 0.1, 0.6}) {
            CAPTURE(phi.name);
            CAPTURE(p);
            constexpr double h = 1e-4;  // central difference: error h^2 kappa''' / 6, below 1e-7
            const double slope = (kernel(0.9, 0.8, p + h).value - kernel(0.9, 0.8, p - h).value) / (2.0 * h);
            CHECK(kernel(0.9, 0.8, p).derivative == doctest::Approx(slope).epsilon(1e-5));
        }
    }
}

TEST_CASE("an activation of the user's own that computes GELU or ReLU has their kernels") {
    ActivationKernel closed_gelu(gelu), closed_relu(relu), user_gelu(activation<UserGELU>()),
        user_relu(activation<UserReLU>());
    for (const double p : {-0.3, 0.0, 0.3, 0.6, 0.8}) {
        CAPTURE(p);
        const KernelPair g = closed_gelu(0.8, 0.8, p), r = closed_relu(0.8, 0.8, p);
        CHECK(user_gelu(0.8, 0.8, p).value == doctest::Approx(g.value).epsilon(1e-6));
        CHECK(user_gelu(0.8, 0.8, p).derivative == doctest::Approx(g.derivative).epsilon(1e-6));
        // The series of a step falls slowly: coefficients beyond the 48th hold 1/(pi sqrt(48)) of it, most of which the
        // last term returns.
        CHECK(user_relu(0.8, 0.8, p).value == doctest::Approx(r.value).epsilon(1e-3));
        CHECK(user_relu(0.8, 0.8, p).derivative == doctest::Approx(r.derivative).scale(1.0).epsilon(5e-3));
    }
}

TEST_CASE("the relative variance of a squared unit: 5 for ReLU") {
    CHECK(ActivationKernel(relu).square_variance(0.3) == 5.0);
    // E phi^4 = 3/2 q^2 and E phi^2 = q/2, by the generic sum; the kink costs about step^2.
    CHECK(ActivationKernel(activation<UserReLU>()).square_variance(0.3) == doctest::Approx(5.0).epsilon(1e-2));
}

TEST_CASE("the relative variance of a squared unit, between its limits") {
    ActivationKernel kernel(gelu);
    for (const double q : {0.013, 0.4, 1.0, 2.7, 11.0}) {
        CAPTURE(q);
        double square = 0.0, fourth = 0.0;
        for (double z = -9.0; z <= 9.0; z += 0.05) {
            const double weight = std::exp(-0.5 * z * z), value = GELU::value(std::sqrt(q) * z);
            square += weight * value * value;
            fourth += weight * std::pow(value, 4);
        }
        const double exact = fourth * std::sqrt(2.0 * 3.14159265358979) / 0.05 / (square * square) - 1.0;
        CHECK(kernel.square_variance(q) == doctest::Approx(exact).epsilon(1e-4));
    }
    CHECK(kernel.square_variance(1e-30) == doctest::Approx(2.0).epsilon(1e-4));  // u/2: that of a Gaussian's square
    CHECK(kernel.square_variance(1e30) == doctest::Approx(5.0).epsilon(1e-4));   // ReLU
    CHECK(kernel.square_variance(0.0) == 0.0);
}

// SPDX-License-Identifier: BSD-3-Clause
//
// Activations: values by hand or from tables, derivatives against central differences, the loops against the scalar
// functions, NaN kept, and an activation of the user's own.
#include <doctest/doctest.h>

#include <normplace/placement/activation.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace normplace;

namespace {

struct Square {
    static constexpr auto name = "square";
    template <class T>
    static T value(T u) {
        return u * u;
    }
    template <class T>
    static T derivative(T u) {
        return T(2) * u;
    }
};
constexpr Activation square = activation<Square>();

// Central differences with step h err by about h^2 |phi'''| / 6 + eps / h = 1e-10 in double.
void check_derivative(const Activation& phi, double u) {
    const double h = 1e-5;
    CAPTURE(phi.name);
    CAPTURE(u);
    CHECK(std::abs((phi.value(u + h) - phi.value(u - h)) / (2.0 * h) - phi.derivative(u)) < 1e-9);
}

template <class T>
void check_rows(const Activation& phi) {
    const std::vector<T> u{T(-3), T(-0.5), T(0.25), T(1), T(4)}, dy{T(1), T(-2), T(3), T(0.5), T(-1)};
    std::vector<T> y(u.size()), du(u.size()), in_place = dy;
    phi.rows<T>().forward(u.data(), y.data(), u.size());
    phi.rows<T>().backward(u.data(), dy.data(), du.data(), u.size());
    phi.rows<T>().backward(u.data(), in_place.data(), in_place.data(), u.size());
    const double tolerance = 8.0 * static_cast<double>(std::numeric_limits<T>::epsilon());
    for (std::size_t i = 0; i < u.size(); ++i) {
        CAPTURE(phi.name);
        CAPTURE(u[i]);
        CHECK(std::abs(y[i] - phi.value(u[i])) <= tolerance * std::abs(phi.value(u[i])) + tolerance);
        CHECK(std::abs(du[i] - dy[i] * phi.derivative(u[i])) <= tolerance * std::abs(dy[i]));
        CHECK(in_place[i] == du[i]);
    }
}

}  // namespace

TEST_CASE("relu") {
    CHECK(relu.value(-2.0) == 0.0);
    CHECK(relu.value(0.0) == 0.0);
    CHECK(relu.value(2.5) == 2.5);
    CHECK(relu.derivative(0.0) == 0.0);
    for (const double u : {-3.0, -0.1, 0.1, 3.0}) check_derivative(relu, u);
    CHECK(std::string(relu.name) == "relu");
}

TEST_CASE("gelu is u Phi(u), exactly and not by its tanh approximation") {
    CHECK(gelu.value(0.0) == 0.0);
    CHECK(gelu.value(1.0) == doctest::Approx(0.8413447460685429).epsilon(1e-14));
    CHECK(gelu.value(-1.0) == doctest::Approx(-0.15865525393145707).epsilon(1e-14));
    CHECK(gelu.value(2.0) == doctest::Approx(1.9544997361036416).epsilon(1e-14));
    CHECK(gelu.value(10.0) == 10.0);
    CHECK(gelu.value(-40.0) == doctest::Approx(0.0));
    for (const double u : {-6.0, -1.5, -0.1, 0.0, 0.3, 1.0, 5.0}) check_derivative(gelu, u);
    CHECK(std::string(gelu.name) == "gelu");
}

TEST_CASE("the loops over rows compute the scalar functions, in place as well") {
    for (const Activation& phi : {relu, gelu, square}) {
        check_rows<float>(phi);
        check_rows<double>(phi);
    }
}

TEST_CASE("NaN in gives NaN out") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const Activation& phi : {relu, gelu}) {
        CHECK(std::isnan(phi.value(nan)));
        const float in = std::numeric_limits<float>::quiet_NaN();
        float result = 0.0f;
        phi.rows<float>().forward(&in, &result, 1);
        CHECK(std::isnan(result));
        // A NaN gradient must not be hidden by an inactive unit's zero.
        const double u = 1.0;
        double du = 0.0;
        phi.rows<double>().backward(&u, &nan, &du, 1);
        CHECK(std::isnan(du));
    }
}

TEST_CASE("activations are compared by what they compute, and a user's own is one of them") {
    CHECK(relu == activation<ReLU>());
    CHECK(!(relu == gelu));
    CHECK(!(square == relu));
    CHECK(square.value(3.0) == 9.0);
    for (const double u : {-2.0, 0.0, 1.5}) check_derivative(square, u);
}

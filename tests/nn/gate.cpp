// SPDX-License-Identifier: BSD-3-Clause
//
// The learned factor, by hand: one number for each channel, and one for all.
#include <doctest/doctest.h>

#include <normplace/nn/gate.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

Vector<double> vector(std::initializer_list<double> values) {
    Vector<double> result;
    result.resize({values.size()});
    std::copy(values.begin(), values.end(), result.data());
    return result;
}

}  // namespace

TEST_CASE("forward multiplies every row; x and y may be one tensor") {
    const Activations<double> x = random_activations(2, 3, 2, 1);
    Activations<double> y, z = x;
    detail::gate_forward(vector({2.0, -3.0}), x, y);
    detail::gate_forward(vector({0.5}), z, z);
    for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(y.data()[i] == (i % 2 ? -3.0 : 2.0) * x.data()[i]);
        CHECK(z.data()[i] == 0.5 * x.data()[i]);
    }
}

TEST_CASE("backward: gate times the gradient, and sums over tokens, or over everything for one number") {
    const Activations<double> x = random_activations(2, 3, 2, 1), dy = random_activations(2, 3, 2, 2);
    Activations<double> dx, in_place = dy;
    Vector<double> dgate = vector({10.0, 20.0}), one = vector({30.0});
    detail::gate_backward(vector({2.0, -3.0}), x, dy, 0.25, dx, dgate);
    detail::gate_backward(vector({0.5}), x, in_place, 1.0, in_place, one);
    double sums[2]{};
    for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(dx.data()[i] == doctest::Approx(0.25 * (i % 2 ? -3.0 : 2.0) * dy.data()[i]));
        CHECK(in_place.data()[i] == 0.5 * dy.data()[i]);
        sums[i % 2] += x.data()[i] * dy.data()[i];
    }
    CHECK(dgate[0] == doctest::Approx(10.0 + 0.25 * sums[0]));
    CHECK(dgate[1] == doctest::Approx(20.0 + 0.25 * sums[1]));
    CHECK(one[0] == doctest::Approx(30.0 + sums[0] + sums[1]));
}

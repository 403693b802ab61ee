// DyT: the formula, the gradients, and the numerical edges.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <normplace/nn/dyt.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE_TEMPLATE("y = gain o tanh(alpha x) + bias", T, float, double) {
    constexpr double tolerance = 4.0 * static_cast<double>(std::numeric_limits<T>::epsilon());
    for (const bool bias : {true, false}) {
        DyT<T> norm(NormOptions{.width = 3, .bias = bias});
        CHECK(norm.alpha[0] == T(0.5));
        norm.alpha[0] = T(0.25);
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(norm.gain[i] == T(1));
            norm.gain[i] = static_cast<T>(i + 2);
            if (bias) norm.bias[i] = static_cast<T>(i);
        }
        Activations<T> x, y;
        x.resize({2, 1, 3});
        for (std::size_t i = 0; i < 6; ++i) x.data()[i] = static_cast<T>(i) - T(2.5);
        typename DyT<T>::Cache cache;
        norm.forward(x, y, cache);
        for (std::size_t i = 0; i < 6; ++i) {
            const double column = static_cast<double>(i % 3), gain = column + 2.0;
            CHECK(std::abs(static_cast<double>(y.data()[i]) - (gain * std::tanh(0.25 * (static_cast<double>(i) - 2.5)) +
                                                               (bias ? column : 0.0))) <= gain * tolerance);
        }
    }
    const DyT<T> started(NormOptions{.width = 3, .alpha = 0.75, .gain = 0.25});
    CHECK(started.alpha[0] == T(0.75));
    CHECK(started.gain[2] == T(0.25));
}

TEST_CASE("DyT's backward is the derivative of its forward") {
    for (const bool bias : {true, false})
        for (const std::size_t s : {1, 3})
            for (const std::size_t d : {1, 2, 5, 19}) {
                INFO("bias ", bias, ", s ", s, ", d ", d);
                check_layer(DyT<double>(NormOptions{.width = d, .bias = bias}), 2, s, 10 + s + d);
            }
}

TEST_CASE("each entry is looked at alone, and none leaves the range") {
    const DyT<float> norm(NormOptions{.width = 4});
    DyT<float>::Cache cache;
    DyT<float>::Gradients gradients;
    zero_gradients(norm, gradients);
    Activations<float> x = Activations<float>::from_shape({1, 2, 4}), y, dx;
    x.fill(std::numeric_limits<float>::quiet_NaN());
    x(0, 0, 0) = 3e38f;
    x(0, 0, 1) = -3e38f;
    x(0, 0, 2) = 0.0f;
    x(0, 1, 0) = -std::numeric_limits<float>::infinity();
    norm.forward(x, y, cache);
    CHECK(y(0, 0, 0) == 1.0f);
    CHECK(y(0, 0, 1) == -1.0f);
    CHECK(y(0, 0, 2) == 0.0f);
    CHECK(std::isnan(y(0, 0, 3)));
    CHECK(y(0, 1, 0) == -1.0f);
    norm.backward(y, dx, cache, gradients);
    CHECK(dx(0, 0, 0) == 0.0f);
    CHECK(dx(0, 0, 2) == 0.0f);
    CHECK(std::isnan(dx(0, 0, 3)));
    CHECK(std::isnan(gradients.alpha[0]));
    CHECK(std::isfinite(gradients.gain[0]));
    CHECK(std::isnan(gradients.gain[3]));
}

TEST_CASE("DyT refuses wrong arguments with their values") {
    CHECK_THROWS_WITH(DyT<float>(NormOptions{0}), "DyT: width is 0, expected at least 1");
    CHECK_THROWS_WITH(DyT<float>(NormOptions{.width = 4, .alpha = 1e300}), "DyT: alpha 1e+300 is not finite");
    const DyT<double> norm(NormOptions{4}), none;
    DyT<double>::Cache cache;
    DyT<double>::Gradients gradients;
    const Activations<double> x = random_activations(2, 3, 4, 1), wide = random_activations(2, 3, 5, 1);
    Activations<double> y, dx;
    CHECK_THROWS_WITH(none.forward(x, y, cache), "DyT: it was made without options and has no width");
    CHECK_THROWS_WITH(norm.forward(wide, y, cache), "DyT: x has shape (2, 3, 5), expected (B, S, 4)");
    const detail::Term<double> term{1.0, wide.data()};
    CHECK_THROWS_WITH(norm.forward_sum(&term, 1, {2, 3, 5}, y, cache),
                      "DyT: y has shape (2, 3, 5), expected (B, S, 4)");
    norm.forward(x, y, cache);
    CHECK_THROWS_WITH(norm.backward(y, dx, cache, gradients), "DyT: gradients.alpha has shape (0), expected (1)");
    zero_gradients(norm, gradients);
    CHECK_THROWS_WITH(norm.backward(random_activations(2, 2, 4, 1), dx, cache, gradients),
                      "DyT: dy has shape (2, 2, 4), expected (2, 3, 4)");
}

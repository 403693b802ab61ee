// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/parameter_list.hpp>

using namespace normplace;

TEST_CASE("parameter_list points at every parameter and its gradient") {
    FeedForward<float> layer({.width = 2, .feed_forward = 3});
    FeedForward<float>::Gradients gradients;
    zero_gradients(layer, gradients);
    const ParameterList<float> list = parameter_list(layer, gradients);
    REQUIRE(list.size() == 4);
    CHECK(list[0].name == "linear1.weight");
    CHECK(list[0].shape == std::vector<std::size_t>{3, 2});
    CHECK(list[3].name == "linear2.bias");
    CHECK(list[3].shape == std::vector<std::size_t>{2});
    list[0].value[4] = 7.0f;
    list[3].gradient[1] = 5.0f;
    CHECK(layer.linear1.weight(2, 0) == 7.0f);
    CHECK(gradients.linear2.bias(1) == 5.0f);
}

TEST_CASE("parameter_list: absent parameters are passed over, gradients without their shapes refused") {
    FeedForward<double> layer({.width = 2, .feed_forward = 3, .bias = false});
    FeedForward<double>::Gradients gradients;
    CHECK_THROWS_WITH_AS(parameter_list(layer, gradients),
                         "parameters: 'linear1.weight' has shape (3, 2) in one object and (0, 0) in another; "
                         "zero_gradients gives gradients their shapes",
                         std::invalid_argument);
    zero_gradients(layer, gradients);
    CHECK(parameter_list(layer, gradients).size() == 2);
}

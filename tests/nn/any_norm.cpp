// SPDX-License-Identifier: BSD-3-Clause
//
// The norm whose kind is known at run time does what that kind does, bit for bit, and has its parameters.
#include <doctest/doctest.h>

#include <normplace/nn/any_norm.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

std::vector<std::string> parameter_names(const AnyNorm<double>& norm) {
    std::vector<std::string> names;
    for_each_parameter([&](const std::string& name, const auto&) { names.push_back(name); }, norm);
    return names;
}

template <class N>
void check_same(NormKind kind) {
    CAPTURE(name(kind));
    CHECK(N::kind == kind);
    const NormOptions options{.width = 5, .epsilon = 1e-3, .kind = kind};
    N own(options);
    AnyNorm<double> any(options);
    randomize_parameters(own, 3);
    randomize_parameters(any, 3);
    const Activations<double> x = random_activations(2, 3, 5, 1), dy = random_activations(2, 3, 5, 2);
    Activations<double> y, any_y, dx, any_dx;
    typename N::Cache cache;
    typename N::Gradients gradients;
    AnyNorm<double>::Cache any_cache;
    AnyNorm<double>::Gradients any_gradients;
    zero_gradients(own, gradients);
    zero_gradients(any, any_gradients);
    own.forward(x, y, cache);
    any.forward(x, any_y, any_cache);
    own.backward(dy, dx, cache, gradients);
    any.backward(dy, any_dx, any_cache, any_gradients);
    CHECK(any.width() == own.width());
    CHECK(any_y == y);
    CHECK(any_dx == dx);
    CHECK(any_gradients.gain == gradients.gain);
    CHECK(any_gradients.bias == gradients.bias);
    if constexpr (requires { gradients.alpha; }) CHECK(any_gradients.alpha == gradients.alpha);
}

}  // namespace

TEST_CASE("each kind is that kind, bit for bit") {
    check_same<LayerNorm<double>>(NormKind::layer_norm);
    check_same<RMSNorm<double>>(NormKind::rms_norm);
    check_same<ScaleNorm<double>>(NormKind::scale_norm);
    check_same<UnitOffsetLayerNorm<double>>(NormKind::unit_offset_layer_norm);
    check_same<UnitOffsetRMSNorm<double>>(NormKind::unit_offset_rms_norm);
    check_same<CentreNorm<double>>(NormKind::centre_norm);
    check_same<UnitNorm<double>>(NormKind::unit_norm);
    check_same<DyT<double>>(NormKind::dyt);
}

TEST_CASE("parameters are the kind's own") {
    const auto names = [](NormKind kind) {
        return parameter_names(AnyNorm<double>(NormOptions{.width = 3, .kind = kind}));
    };
    CHECK(names(NormKind::layer_norm) == std::vector<std::string>{"gain", "bias"});
    CHECK(names(NormKind::scale_norm) == std::vector<std::string>{"gain"});
    CHECK(names(NormKind::unit_norm).empty());
    CHECK(names(NormKind::dyt) == std::vector<std::string>{"alpha", "gain", "bias"});
}

TEST_CASE("gradients that are not the norm's are refused, and stay what they are") {
    const AnyNorm<double> norm(NormOptions{.width = 3});
    AnyNorm<double>::Cache cache;
    AnyNorm<double>::Gradients gradients;
    gradients.gain.resize({7});
    const Activations<double> x = random_activations(1, 2, 3, 1);
    Activations<double> y, dx;
    norm.forward(x, y, cache);
    CHECK_THROWS_WITH(norm.backward(x, dx, cache, gradients), "LayerNorm: gradients.gain has shape (7), expected (3)");
    CHECK(gradients.gain.size() == 7);
    CHECK_THROWS_WITH(AnyNorm<double>(NormOptions{}), "LayerNorm: width is 0, expected at least 1");
}

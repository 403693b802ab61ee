// SPDX-License-Identifier: BSD-3-Clause
//
// The stack by itself, of layers that add their number: encoder.cpp and decoder.cpp have it with real ones.
#include <doctest/doctest.h>

#include <nn/gradient_check.hpp>
#include <normplace/nn/layer_stack.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

struct Layer {
    using Scalar = double;
    struct Options {
        std::size_t layers = 0, width = 0;
        double epsilon = 1e-5;
        bool bias = true;
    };
    using Gradients = NoParameters;
    struct Cache {
        DropoutKey dropout;
    };
    Layer(const Options&, const Depth& depth) : number(static_cast<double>(depth.layer)) {}
    template <class Self>
    static std::tuple<> members(Self&) {
        return {};
    }
    double number;
};

template <class P>
struct Stack : LayerStack<P, Layer, LayerNorm<double>> {
    using Base = LayerStack<P, Layer, LayerNorm<double>>;
    explicit Stack(const Layer::Options& options) : Base("Stack", options) {}
    using Base::backward_layers, Base::forward_layers;
};

const auto add_number = [](std::size_t l, const Layer& layer, const Activations<double>& x, Activations<double>& y,
                           Layer::Cache&) {
    CHECK(layer.number == static_cast<double>(l + 1));
    y = x;
    for (double& entry : y.storage()) entry += layer.number;
};

}  // namespace

TEST_CASE("layers run in order, and a final norm follows exactly where the placement has one") {
    const Activations<double> x = random_activations(1, 2, 4, 1);
    Activations<double> y, normed;
    const Stack<PostLN> post({.layers = 3, .width = 4});
    Stack<PostLN>::Cache cache;
    post.forward_layers(x, y, cache, add_number);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(y.data()[i] == doctest::Approx(x.data()[i] + 6.0));

    const Stack<PreLN> pre({.layers = 3, .width = 4});
    Stack<PreLN>::Cache pre_cache;
    LayerNorm<double>::Cache norm_cache;
    pre.forward_layers(x, normed, pre_cache, add_number);
    Activations<double> expected;
    LayerNorm<double>(NormOptions{.width = 4}).forward(y, expected, norm_cache);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(normed.data()[i] == doctest::Approx(expected.data()[i]));
    CHECK(parameter_count(post) == 0);
    CHECK(parameter_count(pre) == 8);
}

TEST_CASE("every layer gets its own dropout key, of the caller's rate") {
    const Activations<double> x = random_activations(1, 2, 4, 1);
    Activations<double> y;
    const Stack<PostLN> stack({.layers = 3, .width = 4});
    Stack<PostLN>::Cache cache;
    cache.dropout = {.seed = 7, .rate = 0.25};
    stack.forward_layers(x, y, cache, add_number);
    for (std::size_t l = 0; l < 3; ++l) {
        CHECK(cache.layers[l].dropout.rate == 0.25);
        CHECK(cache.layers[l].dropout.seed != cache.layers[(l + 1) % 3].dropout.seed);
    }
}

TEST_CASE("a stack refuses no layers, another width, and a cache or gradients that are not its own") {
    CHECK_THROWS_WITH_AS(Stack<PreLN>({.layers = 0, .width = 4}), "Stack: layers is 0, expected at least 1",
                         std::invalid_argument);
    const Stack<PostLN> stack({.layers = 3, .width = 4});
    Stack<PostLN>::Cache cache;
    Stack<PostLN>::Gradients gradients;
    Activations<double> x = random_activations(1, 2, 5, 1), y;
    CHECK_THROWS_WITH_AS(stack.forward_layers(x, y, cache, add_number),
                         "Stack: x has shape (1, 2, 5), expected (B, S, 4)", std::invalid_argument);
    x = random_activations(1, 2, 4, 1);
    CHECK_THROWS_WITH_AS(stack.forward_layers(x, x, cache, add_number), "Stack: x and y are the same tensor",
                         std::invalid_argument);
    const auto back = [](auto&&...) {};
    CHECK_THROWS_WITH_AS(stack.backward_layers(x, y, cache, gradients, back),
                         "Stack: the cache has 0 layers, expected 3; backward needs the cache of a forward",
                         std::invalid_argument);
    stack.forward_layers(x, y, cache, add_number);
    CHECK_THROWS_WITH_AS(stack.backward_layers(x, y, cache, gradients, back),
                         "Stack: gradients have 0 layers, expected 3; call zero_gradients first",
                         std::invalid_argument);
}

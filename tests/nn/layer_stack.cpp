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
        NormKind norm = NormKind::layer_norm;
        std::vector<double> branch_squares{};
    };
    using Gradients = NoParameters;
    static constexpr std::size_t sublayers = 2;
    struct Cache {
        DropoutKey dropout;
    };
    Layer(const AnyPlacement&, const Options&, const Depth& depth) : number(static_cast<double>(depth.layer)) {}
    template <class Self>
    static std::tuple<> members(Self&) {
        return {};
    }
    double number;
};

template <class P>
struct Stack : LayerStack<Layer, LayerNorm<double>> {
    using Base = LayerStack<Layer, LayerNorm<double>>;
    explicit Stack(const Layer::Options& options)
        : Base("Stack", any_placement<P>, options, {.layers = options.layers}) {}
    using Base::backward_layers, Base::forward_layers;
};

// To the s-th stream its number times s + 1.
const auto add_number = [](std::size_t l, const Layer& layer, std::span<const Activations<double>> x,
                           std::span<Activations<double>> y, Layer::Cache&) {
    CHECK(layer.number == static_cast<double>(l + 1));
    REQUIRE(x.size() == y.size());
    for (std::size_t s = 0; s < x.size(); ++s) {
        y[s] = x[s];
        for (double& entry : y[s].storage()) entry += static_cast<double>(s + 1) * layer.number;
    }
};

struct TwoStreams {
    static constexpr auto name = "two-streams";
    static constexpr auto r = stream(1, "r");
    static constexpr auto formula = streams(norm(x + f(x)), r + f(x));
    static constexpr auto output = 2.0 * x + norm(r);
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

TEST_CASE("several streams start as the input, and end as the placement's output says") {
    const Activations<double> x = random_activations(1, 2, 4, 1), dy = random_activations(1, 2, 4, 2);
    Activations<double> y, dx, normed;
    const Stack<TwoStreams> stack({.layers = 3, .width = 4});
    Stack<TwoStreams>::Cache cache;
    stack.forward_layers(x, y, cache, add_number);
    Activations<double> r = x, dr;
    for (double& entry : r.storage()) entry += 12.0;
    LayerNorm<double>::Cache norm_cache;
    LayerNorm<double>::Gradients norm_gradients;
    const LayerNorm<double> norm(NormOptions{.width = 4});
    zero_gradients(norm, norm_gradients);
    norm.forward(r, normed, norm_cache);
    for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(y.data()[i] == doctest::Approx(2.0 * (x.data()[i] + 6.0) + normed.data()[i]));

    Stack<TwoStreams>::Gradients gradients;
    zero_gradients(stack, gradients);
    stack.backward_layers(dy, dx, cache, gradients,
                          [](std::size_t, const Layer&, std::span<const Activations<double>> out,
                             std::span<Activations<double>> in, Layer::Cache&, NoParameters&) {
                              for (std::size_t s = 0; s < out.size(); ++s) in[s] = out[s];
                          });
    norm.backward(dy, dr, norm_cache, norm_gradients);
    for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(dx.data()[i] == doctest::Approx(2.0 * dy.data()[i] + dr.data()[i]));
    for (std::size_t i = 0; i < 4; ++i)
        CHECK(gradients.output.norms[0].gain[i] == doctest::Approx(norm_gradients.gain[i]));
    std::vector<std::string> names;
    for_each_parameter([&](const std::string& name, auto&) { names.push_back(name); }, stack);
    CHECK(names == std::vector<std::string>{"final_norm.gain", "final_norm.bias"});
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

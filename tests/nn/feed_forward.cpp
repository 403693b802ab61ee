// The feed-forward sublayer, with the library's activations and with a user's own.
#include <doctest/doctest.h>

#include <normplace/nn/feed_forward.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {
struct Swish {
    static constexpr auto name = "swish";
    template <class T>
    static T value(T u) {
        return u / (T(1) + std::exp(-u));
    }
    template <class T>
    static T derivative(T u) {
        const T s = T(1) / (T(1) + std::exp(-u));
        return s + u * s * (T(1) - s);
    }
};
}  // namespace

TEST_CASE("feed-forward gradients") {
    for (const Activation& phi : {relu, gelu, activation<Swish>()})
        for (const bool bias : {true, false})
            for (const std::size_t width : {1, 3}) {
                INFO("activation ", std::string(phi.name), ", ", "bias ", bias, ", ", "width ", width);
                check_layer(FeedForward<double>({width, 5, bias, phi}), 2, 3, 7);
            }
}

TEST_CASE("more rows than backward takes at once are those of two halves") {
    constexpr std::size_t rows = 1030, half = rows / 2, width = 3;
    for (const Activation& phi : {relu, gelu}) {
        INFO("activation ", std::string(phi.name));
        FeedForward<double> layer({.width = width, .feed_forward = 5, .activation = phi});
        CHECK(detail::threads_for(2.0 * layer.linear1.work(rows)) == 1);  // so all rows are one thread's
        randomize_parameters(layer, 1);
        FeedForward<double>::Gradients gradients, sum;
        zero_gradients(layer, gradients);
        zero_gradients(layer, sum);
        const auto step = [&](std::size_t first, std::size_t count, FeedForward<double>::Gradients& into) {
            const auto part = [&](const Activations<double>& all) {
                Activations<double> some = Activations<double>::from_shape({1, count, width});
                std::copy_n(all.data() + first * width, count * width, some.data());
                return some;
            };
            Activations<double> y, dx;
            FeedForward<double>::Cache cache;
            layer.forward(part(random_activations(1, rows, width, 2)), y, cache);
            layer.backward(part(random_activations(1, rows, width, 3)), dx, cache, into);
            return std::vector<double>(dx.begin(), dx.end());
        };
        const std::vector<double> dx = step(0, rows, gradients), lower = step(half, half, sum);
        std::vector<double> expected = step(0, half, sum);
        expected.insert(expected.end(), lower.begin(), lower.end());
        double difference = 0.0;
        for (std::size_t i = 0; i < dx.size(); ++i) difference = std::max(difference, std::abs(dx[i] - expected[i]));
        for_each_parameter(
            [&](const std::string&, const auto&, const auto& a, const auto& b) {
                for (std::size_t i = 0; i < a.size(); ++i)
                    difference = std::max(difference, std::abs(a.data()[i] - b.data()[i]));
            },
            layer, gradients, sum);
        CHECK(difference < 1e-11);  // sums of a thousand terms of order 1
    }
}

TEST_CASE("y = W_2 phi(W_1 x + b_1) + b_2") {
    FeedForward<double> layer({.width = 1, .feed_forward = 2});
    layer.linear1.weight(0, 0) = 2.0;
    layer.linear1.weight(1, 0) = -1.0;
    layer.linear1.bias[0] = 1.0;
    layer.linear2.weight(0, 0) = 3.0;
    layer.linear2.weight(0, 1) = 5.0;
    layer.linear2.bias[0] = -4.0;
    Activations<double> x, y;
    x.resize({1, 2, 1});
    x(0, 0, 0) = 1.5;
    x(0, 1, 0) = -2.0;
    FeedForward<double>::Cache cache;
    layer.forward(x, y, cache);
    CHECK(y(0, 0, 0) == doctest::Approx(3.0 * 4.0 - 4.0));
    CHECK(y(0, 1, 0) == doctest::Approx(5.0 * 2.0 - 4.0));
}

TEST_CASE("wrong arguments are refused with their values") {
    CHECK_THROWS_WITH(FeedForward<float>({.width = 4, .feed_forward = 0}),
                      "Linear: output width is 0, expected at least 1");
    const FeedForward<double> layer({.width = 4, .feed_forward = 8});
    FeedForward<double>::Cache cache;
    FeedForward<double>::Gradients gradients;
    zero_gradients(layer, gradients);
    Activations<double> y, dx;
    CHECK_THROWS_WITH(layer.forward(random_activations(1, 2, 5, 1), y, cache),
                      "FeedForward: x has shape (1, 2, 5), expected (B, S, 4)");
    layer.forward(random_activations(1, 2, 4, 1), y, cache);
    CHECK_THROWS_WITH(layer.backward(random_activations(1, 3, 4, 1), dx, cache, gradients),
                      "FeedForward: dy has shape (1, 3, 4), expected (1, 2, 4)");
}

TEST_CASE("a cache is used up by backward, and that of another layer is refused") {
    check_cache(FeedForward<double>({.width = 4, .feed_forward = 64}),
                FeedForward<double>({.width = 4, .feed_forward = 8}), "FeedForward",
                "FeedForward: the cache's activated has shape (1, 2, 8), expected (1, 2, 64)");
}

TEST_CASE_TEMPLATE("gradients with a norm inside", N, LayerNorm<double>, RMSNorm<double>) {
    for (const Activation& phi : {relu, gelu})
        for (const bool bias : {true, false})
            for (const std::size_t feed_forward : {1, 2, 5}) {
                INFO("activation ", std::string(phi.name), ", bias ", bias, ", F ", feed_forward);
                check_layer(FeedForward<double, N>({3, feed_forward, bias, phi, {.hidden = true}, 0.1}), 2, 3, 7);
            }
}

TEST_CASE("the norm inside stands after the activation, and is there only when it is asked for") {
    FeedForward<double> layer({.width = 1, .feed_forward = 3, .norms = {.hidden = true}, .norm_epsilon = 0.25});
    // phi(W_1 x + b_1) = (2, 0, 4): mean 2, biased variance 8/3.
    layer.linear1.weight(0, 0) = 2.0;
    layer.linear1.weight(1, 0) = -1.0;
    layer.linear1.weight(2, 0) = 4.0;
    layer.linear2.weight(0, 0) = 5.0;
    layer.linear2.weight(0, 1) = 7.0;
    layer.linear2.weight(0, 2) = 11.0;
    Activations<double> x, y;
    x.resize({1, 1, 1});
    x.fill(1.0);
    FeedForward<double>::Cache cache;
    layer.forward(x, y, cache);
    CHECK(y(0, 0, 0) == doctest::Approx((-2.0 * 7.0 + 2.0 * 11.0) / std::sqrt(8.0 / 3.0 + 0.25)).epsilon(1e-14));

    const auto last_name = [](const SublayerNorms& norms) {
        const FeedForward<double> one({.width = 2, .feed_forward = 3, .bias = false, .norms = norms});
        std::string last;
        for_each_parameter(
            [&](const std::string& name, const auto& value) { last = name + ' ' + std::to_string(value.size()); }, one);
        return last;
    };
    CHECK(last_name({.query = true, .key = true, .value = true, .heads = true, .head_scale = true}) ==
          "linear2.weight 6");
    CHECK(last_name({.hidden = true}) == "hidden_norm.gain 3");
}

TEST_CASE("the cache of a feed-forward without the norm is refused by one with it") {
    const FeedForward<double> plain({.width = 2, .feed_forward = 3}),
        normed({.width = 2, .feed_forward = 3, .norms = {.hidden = true}});
    const Activations<double> x = random_activations(1, 2, 2, 1);
    Activations<double> y, dx;
    FeedForward<double>::Cache cache;
    FeedForward<double>::Gradients gradients;
    zero_gradients(normed, gradients);
    plain.forward(x, y, cache);
    CHECK_THROWS_WITH(normed.backward(x, dx, cache, gradients),
                      "FeedForward: the cache's normalized has shape (0, 0, 0), expected (1, 2, 3)");
}

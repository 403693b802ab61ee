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
/// Its forward sets the key of its own dropout, so that the shared gradient check can run it.
template <class T>
struct DroppingHidden : FeedForward<T> {
    using FeedForward<T>::FeedForward;
    DropoutKey key{.seed = 3, .rate = 0.4};

    void forward(const Activations<T>& x, Activations<T>& y, typename FeedForward<T>::Cache& cache) const {
        cache.activation_dropout = key;
        FeedForward<T>::forward(x, y, cache);
        cache.activation_dropout = {};  // for the next forward: this one's backward has its own
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

TEST_CASE("feed-forward gradients with dropout of what is activated") {
    for (const Activation& phi : {relu, gelu, activation<Swish>()})
        for (const bool norm : {false, true}) {
            INFO("activation ", std::string(phi.name), ", norm ", norm);
            check_layer(DroppingHidden<double>(FeedForwardOptions{
                            .width = 3, .feed_forward = 8, .activation = phi, .norms = {.hidden = norm}}),
                        2, 3, 7);
        }
}

TEST_CASE(
    "W_2 is given what was activated, with entries that are 0 and others that are 1 / (1 - rate) times as large") {
    for (const Activation& phi : {relu, gelu}) {
        INFO("activation ", std::string(phi.name));
        DroppingHidden<float> layer(FeedForwardOptions{.width = 4, .feed_forward = 500, .activation = phi});
        layer.linear1.bias.fill(1.0f);  // all are activated
        const Activations<double> doubles = random_activations(20, 100, 4, 2);
        const Activations<float> x = doubles;
        Activations<float> y;
        FeedForward<float>::Cache plain, cache;
        layer.FeedForward<float>::forward(x, y, plain);
        layer.forward(x, y, cache);
        double dropped = 0.0;
        const double count = static_cast<double>(plain.activated.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < plain.activated.size(); ++i) {
            const float before = plain.activated.data()[i], after = cache.activated.data()[i];
            dropped += after == 0.0f;
            wrong += after != 0.0f && after != static_cast<float>(1.0 / 0.6) * before;
        }
        CHECK(wrong == 0);
        CHECK(std::abs(dropped - 0.4 * count) < 5.0 * std::sqrt(0.4 * 0.6 * count));  // 5 standard errors
        layer.key.rate = 0.0;
        layer.forward(x, y, cache);
        CHECK(cache.activated == plain.activated);
        layer.key.rate = -0.1;
        CHECK_THROWS_WITH(layer.forward(x, y, cache), "Dropout: rate is -0.1, expected a number in [0, 1)");
        layer.key = {.seed = 3, .activation_rate = 0.5};  // which a sublayer's own key does not have
        CHECK_THROWS_WITH(layer.forward(x, y, cache),
                          "Dropout: attention_rate is 0 and activation_rate is 0.5, expected 0: inside a sublayer a "
                          "key's rate is the one that counts");
    }
}

TEST_CASE("dropout of what is activated is the same in parts as at once") {
    constexpr std::size_t rows = 1030, width = 3;  // backward takes 1024 at once
    DroppingHidden<double> layer(FeedForwardOptions{.width = width, .feed_forward = 5, .activation = gelu});
    randomize_parameters(layer, 1);
    const Activations<double> x = random_activations(1, rows, width, 2), dy = random_activations(1, rows, width, 3);
    Activations<double> y, dx;
    FeedForward<double>::Cache cache;
    FeedForward<double>::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, y, cache);
    const Activations<double> hidden = cache.hidden;
    layer.backward(dy, dx, cache, gradients);
    Activations<double> factors = Activations<double>::from_shape({1, rows, 5});
    factors.fill(1.0);
    dropout(factors, factors, layer.key);
    double difference = 0.0;
    for (std::size_t i = 0; i < rows * 5; ++i) {
        double dropped = 0.0;
        for (std::size_t c = 0; c < width; ++c)
            dropped += dy.data()[i / 5 * width + c] * layer.linear2.weight(c, i % 5);
        const double u = hidden.data()[i], density = std::exp(-0.5 * u * u) / std::sqrt(2.0 * 3.14159265358979323846);
        const double slope = 0.5 * std::erfc(-u / std::sqrt(2.0)) + u * density;
        difference = std::max(difference, std::abs(cache.activated.data()[i] - dropped * factors.data()[i] * slope));
    }
    CHECK(difference < 1e-13);  // sums of three terms of order 1
}

#ifdef _OPENMP
TEST_CASE("dropout of what is activated is the same on any number of threads") {
    constexpr std::size_t rows = 4001;
    DroppingHidden<float> layer(FeedForwardOptions{.width = 32, .feed_forward = 64});
    layer.linear1.bias.fill(1.0f);
    layer.linear2.weight.fill(1.0f);
    Activations<float> x, y, dx;
    x.resize({1, rows, 32});
    x.fill(1.0f);
    const int before = omp_get_max_threads();
    const auto step = [&](int threads) {
        omp_set_num_threads(threads);
        CHECK(detail::threads_for(2.0 * layer.linear1.work(rows)) == static_cast<std::size_t>(threads));
        FeedForward<float>::Cache cache;
        FeedForward<float>::Gradients gradients;
        zero_gradients(layer, gradients);
        layer.forward(x, y, cache);
        Activations<float> all[2] = {cache.activated, {}};
        layer.backward(x, dx, cache, gradients);
        all[1] = cache.activated;
        return std::vector<Activations<float>>(all, all + 2);
    };
    const auto expected = step(1);
    for (const int threads : {2, 3}) {
        const auto got = step(threads);
        CHECK(got[0] == expected[0]);
        CHECK(got[1] == expected[1]);
    }
    omp_set_num_threads(before);
}
#endif

// SPDX-License-Identifier: BSD-3-Clause
//
// The decoder by central differences, in its own stream and in the memory; transformer.cpp has it against PyTorch.
#include <doctest/doctest.h>

#include <nn/gradient_check.hpp>
#include <normplace/nn/decoder.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

const DecoderOptions options{.layers = 2, .width = 6, .heads = 2, .feed_forward = 8, .activation = gelu};
const KeyPaddingMask memory_padding{{false, false, false, true}, {false, false, false, false}};

}  // namespace

TEST_CASE_TEMPLATE("Decoder: gradients of x, of the memory and of every parameter", P, PostLN, PreLN, PeriLN) {
    Decoder<P, double> decoder(options);
    randomize_parameters(decoder, 1);
    Activations<double> x = random_activations(2, 3, 6, 2), memory = random_activations(2, 4, 6, 3), y, dx, dmemory;
    const Activations<double> dy = random_activations(2, 3, 6, 4);
    typename Decoder<P, double>::Cache cache;
    typename Decoder<P, double>::Gradients gradients;
    zero_gradients(decoder, gradients);
    const auto forward = [&] {
        cache.dropout = {.seed = 9, .rate = 0.2, .attention_rate = 0.3, .activation_rate = 0.4};
        decoder.forward(x, y, cache, Memory<double>{memory, memory_padding});
        return dot(y, dy);
    };
    forward();
    decoder.backward(dy, dx, dmemory, cache, gradients);
    std::vector<Checked> all{checked("x", x, dx), checked("memory", memory, dmemory)};
    add_parameters(all, decoder, gradients);
    check_gradients(all, forward);
    for (std::size_t i = 0; i < 6; ++i) CHECK(dmemory(0, 3, i) == 0.0);  // nobody sees the padding
}

TEST_CASE("Decoder: a step of decoding has no dropout, whatever the forward before had") {
    Decoder<PreLN, double> decoder(options);
    randomize_parameters(decoder, 1);
    const Activations<double> x = random_activations(2, 1, 6, 2), memory = random_activations(2, 4, 6, 3);
    const Memory<double> attended{memory, memory_padding};
    Activations<double> y, expected, decoded;
    Decoder<PreLN, double>::Cache cache, fresh;
    decoder.forward(x, expected, fresh, attended);
    cache.dropout = {.seed = 9, .rate = 0.5, .attention_rate = 0.5, .activation_rate = 0.5};
    decoder.forward(x, y, cache, attended);
    CHECK(y != expected);
    decoder.decode(x, decoded, cache, attended, DecodingStep{.position = 0, .length = 2});
    double difference = 0.0;
    for (std::size_t i = 0; i < decoded.size(); ++i)
        difference = std::max(difference, std::abs(decoded.data()[i] - expected.data()[i]));
    CHECK(difference < 1e-13);  // sums of a few terms of order 1
}

TEST_CASE("Decoder: observers see the stream and its gradient at each of the three blocks") {
    Decoder<PreLN, double> decoder(options);
    randomize_parameters(decoder, 1);
    const Activations<double> x = random_activations(2, 3, 6, 2), memory = random_activations(2, 4, 6, 3);
    Activations<double> y, dx, dmemory;
    Decoder<PreLN, double>::Cache cache;
    Decoder<PreLN, double>::Gradients gradients;
    zero_gradients(decoder, gradients);
    std::vector<std::pair<std::size_t, SublayerKind>> seen, seen_back;
    decoder.forward(x, y, cache, Memory<double>{memory, memory_padding},
                    [&](std::size_t layer, SublayerKind kind, const Activations<double>& stream) {
                        CHECK(detail::shape_of(stream) == detail::shape_of(x));
                        seen.emplace_back(layer, kind);
                    });
    decoder.backward(
        y, dx, dmemory, cache, gradients,
        [&](std::size_t layer, SublayerKind kind, const Activations<double>&) { seen_back.emplace_back(layer, kind); });
    using enum SublayerKind;
    const std::vector<std::pair<std::size_t, SublayerKind>> order{{0, attention},       {0, cross_attention},
                                                                  {0, feed_forward},    {1, attention},
                                                                  {1, cross_attention}, {1, feed_forward}};
    CHECK(seen == order);
    CHECK(seen_back == decltype(seen_back)(order.rbegin(), order.rend()));
}

TEST_CASE("Decoder refuses what does not fit") {
    CHECK_THROWS_WITH_AS((Decoder<PreLN, float>({.layers = 0, .width = 4, .feed_forward = 4})),
                         "Decoder: layers is 0, expected at least 1", std::invalid_argument);
    CHECK_THROWS_WITH_AS((Decoder<PreLN, float>({.layers = 1, .width = 6, .heads = 4, .feed_forward = 4})),
                         "MultiHeadAttention: model width 6 is not divisible by 4 heads", std::invalid_argument);
    const Decoder<PreLN, double> decoder(options);
    const Activations<double> x = random_activations(2, 3, 6, 2), narrow = random_activations(2, 4, 5, 3),
                              one = random_activations(2, 1, 6, 4), memory = random_activations(2, 4, 6, 3);
    Activations<double> y;
    Decoder<PreLN, double>::Cache cache;
    CHECK_THROWS_WITH_AS(decoder.forward(x, y, cache, Memory<double>{narrow, memory_padding}),
                         "CrossAttention: memory has shape (2, 4, 5), expected (2, 4, 6)", std::invalid_argument);
    const Memory<double> attended{memory, memory_padding};
    CHECK_THROWS_WITH_AS(decoder.decode(x, y, cache, attended, DecodingStep{.position = 0, .length = 4}),
                         "MultiHeadAttention: x has shape (2, 3, 6), expected (2, 1, 6)", std::invalid_argument);
    CHECK_THROWS_WITH_AS(decoder.decode(one, y, cache, attended, DecodingStep{.position = 4, .length = 4}),
                         "MultiHeadAttention: position 4 is not one of 4", std::invalid_argument);
    decoder.decode(one, y, cache, attended, DecodingStep{.position = 0, .length = 4});
    CHECK_THROWS_WITH_AS(decoder.select(cache, std::vector<std::size_t>{0, 2}),
                         "MultiHeadAttention: sequence 2 is selected, but the cache holds 2", std::invalid_argument);
    Decoder<PreLN, double>::Gradients gradients;
    Activations<double> dx, dmemory;
    zero_gradients(decoder, gradients);
    CHECK_THROWS_WITH_AS(decoder.backward(one, dx, dmemory, cache, gradients),
                         "CrossAttention: backward needs a cache that a forward has filled and no backward has used "
                         "up",
                         std::invalid_argument);
}

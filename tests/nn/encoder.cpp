// The encoder stack: gradients of a two-layer encoder with readout and loss, the final-norm rule, observers.
#include <doctest/doctest.h>

#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/visit.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

struct ModelSizes {
    std::size_t batch, sequence, width, heads, feed_forward;
};

template <class P>
void check_two_layers(const ModelSizes& size, bool causal, const KeyPaddingMask& mask) {
    INFO("placement ", std::string(P::name), ", batch ", size.batch, ", sequence ", size.sequence, ", width ",
         size.width);
    Encoder<P, double> encoder({.layers = 2,
                                .width = size.width,
                                .heads = size.heads,
                                .feed_forward = size.feed_forward,
                                .causal = causal,
                                .activation = gelu});
    Linear<double> readout(size.width, 7);
    randomize_parameters(encoder, 21);
    randomize_parameters(readout, 22);
    Activations<double> x = random_activations(size.batch, size.sequence, size.width, 23), y, logits, dy, dx;
    Tokens targets;
    targets.resize({size.batch, size.sequence});
    for (std::size_t i = 0; i < targets.size(); ++i) targets.data()[i] = static_cast<int>((3 * i + 1) % 7);
    typename Encoder<P, double>::Cache cache;
    typename Encoder<P, double>::Gradients gradients;
    Linear<double>::Gradients readout_gradients;
    zero_gradients(encoder, gradients);
    zero_gradients(readout, readout_gradients);
    const auto loss = [&] {
        encoder.forward(x, y, cache, mask);
        readout.forward(y, logits);
        return cross_entropy(logits, targets, logits);
    };
    loss();
    readout.backward(y, logits, dy, readout_gradients);
    encoder.backward(dy, dx, cache, gradients);
    std::vector<Checked> all{checked("x", x, dx)};
    add_parameters(all, encoder, gradients);
    add_parameters(all, readout, readout_gradients);
    check_gradients(all, loss);
}

}  // namespace

TEST_CASE("two layers with readout and loss: every placement's gradients") {
    for_each_placement([](auto placement) {
        using P = decltype(placement);
        check_two_layers<P>({2, 3, 4, 2, 5}, false, {});
        check_two_layers<P>({1, 1, 3, 1, 1}, true, {});
    });
}

TEST_CASE("two layers under masks") {
    KeyPaddingMask mask;
    mask.resize({2, 3});
    mask.fill(false);
    mask(0, 2) = true;
    check_two_layers<PreLN>({2, 3, 6, 3, 5}, true, mask);
    check_two_layers<PostLN>({2, 3, 6, 3, 5}, false, mask);
}

TEST_CASE("the stack ends in a norm exactly when the placement says so") {
    for_each_placement([](auto placement) {
        using P = decltype(placement);
        INFO("placement ", std::string(P::name));
        Encoder<P, double> encoder({.layers = 2, .width = 16, .heads = 2, .feed_forward = 8});
        RandomEngine random(1);
        encoder.initialize(random);
        typename Encoder<P, double>::Cache cache;
        Activations<double> y, last;
        encoder.forward(random_activations(1, 3, 16, 1), y, cache, {},
                        [&](std::size_t, SublayerKind, const Activations<double>& stream) { last = stream; });
        bool same = true;
        for (std::size_t i = 0; i < y.size(); ++i) same = same && y.data()[i] == last.data()[i];
        CHECK(same == !P::final_norm);
        if (!P::final_norm && std::string(P::name) == "none") return;
        CHECK(dot(y, y) == doctest::Approx(3.0 * 16.0).epsilon(1e-4));  // normalised, and once only
    });
}

TEST_CASE("observers see every block in order, and gradients in the opposite order") {
    Encoder<PreLN, double> encoder({.layers = 2, .width = 4, .heads = 2, .feed_forward = 8});
    Encoder<PreLN, double>::Cache cache;
    Encoder<PreLN, double>::Gradients gradients;
    zero_gradients(encoder, gradients);
    const Activations<double> x = random_activations(1, 3, 4, 1);
    Activations<double> y, dx;
    std::vector<std::string> seen;
    const auto note = [&](std::size_t layer, SublayerKind kind, const Activations<double>& tensor) {
        CHECK(tensor.size() == 12);
        seen.push_back(std::to_string(layer) + (kind == SublayerKind::attention ? "a" : "f"));
    };
    encoder.forward(x, y, cache, {}, note);
    encoder.backward(x, dx, cache, gradients, note);
    CHECK(seen == std::vector<std::string>{"0a", "0f", "1a", "1f", "1f", "1a", "0f", "0a"});
}

TEST_CASE("every layer starts with weights of its own") {
    Encoder<PreLN, float> encoder({.layers = 3, .width = 8, .heads = 2, .feed_forward = 8});
    RandomEngine random(1);
    encoder.initialize(random);
    for (std::size_t l = 1; l < 3; ++l)
        CHECK(encoder.layers[l].attention.sublayer.query.weight.storage() !=
              encoder.layers[0].attention.sublayer.query.weight.storage());
}

TEST_CASE("wrong arguments are refused with their values") {
    using E = Encoder<PreLN, double>;
    CHECK_THROWS_WITH(E({.layers = 0, .width = 4, .heads = 2, .feed_forward = 8}),
                      "Encoder: layers is 0, expected at least 1");
    CHECK_THROWS_WITH(E({.layers = 1, .width = 6, .heads = 4, .feed_forward = 8}),
                      "MultiHeadAttention: model width 6 is not divisible by 4 heads");
    const E encoder({.layers = 1, .width = 4, .heads = 2, .feed_forward = 8});
    E::Cache cache;
    E::Gradients gradients;
    Activations<double> x = random_activations(1, 2, 4, 1), y, dx;
    CHECK_THROWS_WITH(encoder.backward(x, dx, cache, gradients),
                      "Encoder: the cache has 0 layers, expected 1; backward needs the cache of a forward");
    encoder.forward(x, y, cache);
    CHECK_THROWS_WITH(encoder.backward(x, dx, cache, gradients),
                      "Encoder: gradients have 0 layers, expected 1; call zero_gradients first");
    CHECK_THROWS_WITH(encoder.forward(random_activations(1, 2, 3, 1), y, cache),
                      "Encoder: x has shape (1, 2, 3), expected (B, S, 4)");
}

// The encoder stack: gradients of a two-layer encoder with readout and loss, the final-norm rule, observers.
#include <doctest/doctest.h>

#include <normplace/nn/any_norm.hpp>
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

using AnyOfDoubles = AnyEncoder<double, LayerNorm<double>>;

template <class N = LayerNorm<double>>
void check_two_layers(const AnyPlacement& placement, const ModelSizes& size, bool causal, const KeyPaddingMask& mask) {
    INFO("placement ", std::string(placement.name), ", batch ", size.batch, ", sequence ", size.sequence, ", width ",
         size.width);
    AnyEncoder<double, N> encoder(placement, {.layers = 2,
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
    typename AnyEncoder<double, N>::Cache cache;
    typename AnyEncoder<double, N>::Gradients gradients;
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
    for (const AnyPlacement* placement : all_placements()) {
        if (placement->norm_kind) continue;  // below
        // A norm of two entries, as queries have with a width of 4, is a step: no difference quotient follows it.
        check_two_layers(*placement, {2, 3, 8, 2, 5}, false, {});
        check_two_layers(*placement, {1, 1, 3, 1, 1}, true, {});
    }
}

TEST_CASE("two layers on the sphere, with the norm that the placement is made for") {
    check_two_layers<UnitNorm<double>>(any_placement<NGPT>, {2, 3, 8, 2, 5}, false, {});
    check_two_layers<AnyNorm<double>>(any_placement<NGPT>, {1, 4, 6, 2, 4}, true, {});
    const AnyEncoder<double, AnyNorm<double>> any(any_placement<NGPT>,
                                                  {.layers = 1, .width = 4, .heads = 2, .feed_forward = 4});
    CHECK(std::holds_alternative<UnitNorm<double>>(any.layers[0].attention.norms[0].norm));
    CHECK(std::holds_alternative<UnitNorm<double>>(any.layers[0].attention.sublayer.norms.query_norm.norm));
}

TEST_CASE("two layers under masks") {
    KeyPaddingMask mask;
    mask.resize({2, 3});
    mask.fill(false);
    mask(0, 2) = true;
    check_two_layers(any_placement<PreLN>, {2, 3, 6, 3, 5}, true, mask);
    check_two_layers(any_placement<PostLN>, {2, 3, 6, 3, 5}, false, mask);
}

TEST_CASE("the stack ends as the placement says, normalised once where it has a norm") {
    for (const AnyPlacement* placement : all_placements()) {
        INFO("placement ", std::string(placement->name));
        AnyEncoder<double, AnyNorm<double>> encoder(*placement,
                                                    {.layers = 2, .width = 16, .heads = 2, .feed_forward = 8});
        RandomEngine random(1);
        encoder.initialize(random);
        AnyEncoder<double, AnyNorm<double>>::Cache cache;
        Activations<double> y, last;
        encoder.forward(random_activations(1, 3, 16, 1), y, cache, {},
                        [&](std::size_t, SublayerKind, const Activations<double>& stream) { last = stream; });
        bool same = true;
        for (std::size_t i = 0; i < y.size(); ++i) same = same && y.data()[i] == last.data()[i];
        CHECK(same == (placement->output == normplace::x));
        CHECK(encoder.output.norms.size() == placement->final_norm());
        const bool has_norms = syntax::count_norms(placement->formula) > 0 || placement->final_norm();
        if (!has_norms || placement == &any_placement<ResiDual>) continue;  // x + norm(r)
        const double square = placement->norm_kind == NormKind::unit_norm ? 1.0 : 16.0;
        CHECK(dot(y, y) == doctest::Approx(3.0 * square).epsilon(1e-4));
    }
}

TEST_CASE("several streams: two layers written out by hand") {
    const AnyOfDoubles encoder = [] {
        AnyOfDoubles made(any_placement<ResiDual>, {.layers = 2, .width = 4, .heads = 2, .feed_forward = 6});
        randomize_parameters(made, 5);
        return made;
    }();
    AnyOfDoubles::Cache cache;
    Activations<double> y, x = random_activations(2, 3, 4, 1), r = x, branch;
    encoder.forward(x, y, cache);
    LayerNorm<double>::Cache norm_cache;
    const auto add = [&](const Activations<double>& from, Activations<double>& to) {
        for (std::size_t i = 0; i < to.size(); ++i) to.data()[i] += from.data()[i];
    };
    for (const auto& layer : encoder.layers) {
        MultiHeadAttention<double>::Cache attention_cache;
        FeedForward<double>::Cache feed_forward_cache;
        static_cast<const MultiHeadAttention<double>&>(layer.attention.sublayer).forward(x, branch, attention_cache);
        add(branch, x), add(branch, r);
        layer.attention.norms[0].forward(x, x, norm_cache);
        static_cast<const FeedForward<double>&>(layer.feed_forward.sublayer).forward(x, branch, feed_forward_cache);
        add(branch, x), add(branch, r);
        layer.feed_forward.norms[0].forward(x, x, norm_cache);
    }
    encoder.output.norms[0].forward(r, r, norm_cache);
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y.data()[i] == doctest::Approx(x.data()[i] + r.data()[i]));
}

TEST_CASE("branch_squares: where a placement's factors start by them, and that there is one for each sublayer") {
    EncoderOptions options{.layers = 2, .width = 4, .heads = 2, .feed_forward = 6};
    const Encoder<Admin, double> unknown(options);
    CHECK(unknown.layers[1].feed_forward.gates[0][0] == doctest::Approx(2.0));  // sqrt(1 + 3)
    options.branch_squares = {3.0, 5.0, 7.0, 9.0};
    const Encoder<Admin, double> known(options);
    CHECK(known.layers[0].attention.gates[0][0] == 1.0);
    CHECK(known.layers[0].feed_forward.gates[0][0] == 2.0);
    CHECK(known.layers[1].attention.gates[0][3] == 3.0);
    CHECK(known.layers[1].feed_forward.gates[0][0] == 4.0);
    options.branch_squares.pop_back();
    CHECK_THROWS_WITH((Encoder<Admin, double>(options)),
                      "Encoder: branch_squares has 3 numbers, expected 4, one for each sublayer, or none");
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

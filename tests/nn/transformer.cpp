// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder-decoder against PyTorch's, tensor by tensor, by central differences where PyTorch has no counterpart, and
// decoding token by token against the whole sequence at once.
#include <doctest/doctest.h>

#include <nn/golden.hpp>
#include <nn/gradient_check.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/transformer.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

template <class PE, class PD, class T>
void check_transformer(const std::string& name, Tied tied) {
    Golden golden(name);
    const auto& config = golden.config;
    TransformerOptions options;
    options.source_vocabulary = config.at("source_vocabulary");
    options.target_vocabulary = config.at("target_vocabulary");
    options.encoder_layers = options.decoder_layers = config.at("layers");
    options.width = config.at("width");
    options.heads = config.at("heads");
    options.feed_forward = config.at("feed_forward");
    options.epsilon = config.at("epsilon");
    options.tied = tied;
    using Model = Transformer<PE, PD, T>;
    Model model(options);
    typename Model::Cache cache;
    typename Model::Gradients gradients;
    const auto parameters = golden_parameters<T>(model, gradients);
    golden.fill(parameters);

    Activations<T> logits;
    model.forward(table<Tokens>(config.at("source")), table<KeyPaddingMask>(config.at("padding")),
                  table<Tokens>(config.at("target")), logits, cache);
    golden.check("logits", view(logits));
    const LossSum loss = cross_entropy_sum(logits, table<Tokens>(config.at("targets")), logits,
                                           {.label_smoothing = config.at("label_smoothing")});
    Vector<T> loss_tensor{static_cast<T>(loss.sum)};
    golden.check("loss", view(loss_tensor));
    model.backward(logits, cache, gradients);
    golden.check_gradients(parameters);
    golden.check_all_read();
}

TransformerOptions small(Tied tied) {
    return {.source_vocabulary = tied == Tied::everything ? 9u : 7u,
            .target_vocabulary = 9,
            .encoder_layers = 1,
            .decoder_layers = 2,
            .width = 8,
            .heads = 2,
            .feed_forward = 12,
            .positions = 6,
            .tied = tied};
}
const Tokens source{{1, 2, 3, 6}, {5, 4, 0, 0}};
const KeyPaddingMask source_padding{{false, false, false, false}, {false, false, true, true}};
const Tokens target{{1, 8, 3}, {0, 2, 7}};
const Tokens targets{{8, 3, 2}, {2, 7, ignored_target}};

template <class P>
Transformer<P, P, double> drawn(Tied tied) {
    Transformer<P, P, double> model(small(tied));
    RandomEngine random(3);
    model.initialize(random);
    return model;
}

}  // namespace

TEST_CASE_TEMPLATE("Transformer against torch.nn's encoder and decoder", T, float, double) {
    check_transformer<PostLN, PostLN, T>("transformer-post-ln", Tied::everything);
    check_transformer<PostLN, PreLN, T>("transformer-mixed", Tied::none);
}

TEST_CASE("Transformer: gradients with a tied readout and dropout, by central differences") {
    auto model = drawn<PeriLN>(Tied::readout);
    using Model = decltype(model);
    Model::Cache cache;
    Model::Gradients gradients;
    zero_gradients(model, gradients);
    Activations<double> logits;
    const auto loss = [&] {
        cache.dropout = {.seed = 5, .rate = 0.3, .attention_rate = 0.2, .activation_rate = 0.4};
        model.forward(source, source_padding, target, logits, cache);
        return cross_entropy_sum(logits, targets, logits).sum;
    };
    loss();
    model.backward(logits, cache, gradients);
    std::vector<Checked> all;
    add_parameters(all, model, gradients);
    check_gradients(all, loss);
}

TEST_CASE_TEMPLATE("Transformer: decoding token by token is the whole sequence at once", P, PostLN, PreLN, DeepNorm) {
    const auto model = drawn<P>(Tied::everything);
    typename std::decay_t<decltype(model)>::Cache cache, stepwise;
    Activations<double> logits, next;
    model.forward(source, source_padding, target, logits, cache);
    model.encode(source, source_padding, stepwise);
    const std::vector<std::size_t> parents[] = {{0, 1}, {1, 0}, {1, 0, 1}}, sentences[] = {{0, 1}, {1, 0}, {0, 1, 0}};
    for (std::size_t s = 0; s < 3; ++s) {
        Tokens tokens({parents[s].size(), 1});
        for (std::size_t i = 0; i < parents[s].size(); ++i) tokens(i, 0) = target(sentences[s][i], s);
        model.decode(tokens, parents[s], {.position = s, .length = 5}, next, stepwise);
        for (std::size_t i = 0; i < parents[s].size(); ++i)
            for (std::size_t v = 0; v < 9; ++v)
                CHECK(next(i, 0, v) == doctest::Approx(logits(sentences[s][i], s, v)).epsilon(1e-12));
    }
}

TEST_CASE("Transformer: a padded source changes nothing") {
    const auto model = drawn<PreLN>(Tied::everything);
    std::decay_t<decltype(model)>::Cache cache;
    Activations<double> padded, alone;
    model.forward(source, source_padding, target, padded, cache);
    model.forward(Tokens{{5, 4}}, {}, Tokens{{0, 2, 7}}, alone, cache);
    for (std::size_t s = 0; s < 3; ++s)
        for (std::size_t v = 0; v < 9; ++v) CHECK(padded(1, s, v) == doctest::Approx(alone(0, s, v)).epsilon(1e-12));
}

TEST_CASE("Transformer: a token enters with second moment 1 and, beside it, its position") {
    Transformer<PreLN, PreLN, double> model({.source_vocabulary = 50,
                                             .target_vocabulary = 50,
                                             .encoder_layers = 1,
                                             .decoder_layers = 1,
                                             .width = 64,
                                             .feed_forward = 8});
    RandomEngine random(1);
    model.initialize(random);
    double squares = 0.0;
    for (const double entry : model.source.token.weight.storage()) squares += entry * entry;
    // 3200 squares of variance 2 each
    CHECK(64.0 * squares / 3200.0 == doctest::Approx(1.0).epsilon(4.0 * std::sqrt(2.0 / 3200.0)));
}

TEST_CASE("Transformer refuses what does not fit") {
    auto options = small(Tied::none);
    options.tied = Tied::everything;
    CHECK_THROWS_WITH_AS((Transformer<PreLN, PreLN, float>(options)),
                         "Transformer: source and target have vocabularies of 7 and 9 tokens, but are to share one "
                         "embedding",
                         std::invalid_argument);
    options.source_vocabulary = 0;
    CHECK_THROWS_WITH_AS((Transformer<PreLN, PreLN, float>(options)),
                         "Transformer: source vocabulary is 0, expected at least 1", std::invalid_argument);
    const auto model = drawn<PreLN>(Tied::none);
    std::decay_t<decltype(model)>::Cache cache;
    Activations<double> logits;
    CHECK_THROWS_AS(model.forward(Tokens{{8}}, {}, Tokens{{0}}, logits, cache), std::invalid_argument);
    CHECK_THROWS_AS(model.forward(Tokens{{1}, {2}}, {}, Tokens{{0}}, logits, cache), std::invalid_argument);
    CHECK_THROWS_AS(model.forward(Tokens{{1, 1, 1, 1, 1, 1, 1}}, {}, Tokens{{0}}, logits, cache),
                    std::invalid_argument);
}

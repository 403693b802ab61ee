// SPDX-License-Identifier: BSD-3-Clause
//
// The same computation is checked against PyTorch in golden.cpp, from its parts. Here: that the model puts the parts
// together so, its gradients, and what a mask hides.
#include <doctest/doctest.h>

#include <nn/gradient_check.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/language_model.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

LanguageModelOptions small(bool causal, bool tied = false) {
    return {.vocabulary = 7,
            .layers = 2,
            .width = 8,
            .heads = 2,
            .feed_forward = 12,
            .positions = 5,
            .causal = causal,
            .tied = tied};
}
const Tokens tokens{{1, 2, 3, 6}, {5, 4, 0, 0}};
const KeyPaddingMask padding{{false, false, false, false}, {false, false, true, true}};

template <class P>
LanguageModel<P, double> drawn(const LanguageModelOptions& options) {
    LanguageModel<P, double> model(options);
    RandomEngine random(3);
    model.initialize(random);
    return model;
}

}  // namespace

TEST_CASE("LanguageModel: gradients, causal and masked, tied and not, with dropout") {
    const Tokens targets{{ignored_target, 3, 6, 2}, {4, 1, ignored_target, ignored_target}};
    for (const auto& [causal, tied] : {std::pair{true, false}, {false, true}}) {
        auto model = drawn<PreLN>(small(causal, tied));
        decltype(model)::Cache cache;
        decltype(model)::Gradients gradients;
        zero_gradients(model, gradients);
        Activations<double> logits;
        const auto loss = [&] {
            cache.dropout = {.seed = 5, .rate = 0.3, .attention_rate = 0.2, .activation_rate = 0.4};
            model.forward(tokens, logits, cache, padding);
            return cross_entropy_sum(logits, targets, logits).sum;
        };
        loss();
        model.backward(logits, cache, gradients);
        std::vector<Checked> all;
        add_parameters(all, model, gradients);
        check_gradients(all, loss);
    }
}

TEST_CASE("LanguageModel: causal, a token sees what stands before it; masked, all but the padding") {
    for (const bool causal : {true, false}) {
        const auto model = drawn<PostLN>(small(causal));
        std::decay_t<decltype(model)>::Cache cache;
        Activations<double> before, after;
        model.forward(tokens, before, cache, padding);
        Tokens changed = tokens;
        changed(0, 2) = 0;
        changed(1, 3) = 6;  // padding
        model.forward(changed, after, cache, padding);
        CHECK((before(0, 1, 0) == after(0, 1, 0)) == causal);
        CHECK(before(0, 3, 0) != after(0, 3, 0));
        CHECK(before(1, 1, 0) == after(1, 1, 0));
    }
}

TEST_CASE("LanguageModel: a token enters with second moment 1; a tied readout starts with variance 1/D") {
    auto options = small(true);
    options.vocabulary = 200;
    options.width = 64;
    const auto second_moment = [](const Matrix<double>& table) {
        double squares = 0.0;
        for (const double entry : table.storage()) squares += entry * entry;
        return squares / static_cast<double>(table.size());
    };
    const double standard_error = std::sqrt(2.0 / (200.0 * 64.0));
    const auto model = drawn<PreLN>(options);
    CHECK(second_moment(model.embedding.token.weight) == doctest::Approx(0.5).epsilon(4.0 * standard_error));
    CHECK(second_moment(model.readout.weight) == doctest::Approx(1.0 / 64.0).epsilon(4.0 * standard_error));
    options.tied = true;
    CHECK(second_moment(drawn<PreLN>(options).embedding.token.weight) ==
          doctest::Approx(1.0 / 64.0).epsilon(4.0 * standard_error));
}

TEST_CASE("LanguageModel refuses what does not fit") {
    auto options = small(true);
    options.positions = 0;
    CHECK_THROWS_WITH_AS((LanguageModel<PreLN, float>(options)), "LanguageModel: positions is 0, expected at least 1",
                         std::invalid_argument);
    const auto model = drawn<PreLN>(small(true));
    std::decay_t<decltype(model)>::Cache cache;
    Activations<double> logits;
    CHECK_THROWS_WITH_AS(model.forward(Tokens{{1, 1, 1, 1, 1, 1}}, logits, cache),
                         "Embedding: a sequence of 6 tokens is longer than the 5 positions", std::invalid_argument);
}

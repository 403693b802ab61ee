// SPDX-License-Identifier: BSD-3-Clause
//
// The network before its step, and the new tokens' way through it: at no step it is the one that predict() describes.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/network_before_step.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/visit.hpp>
#include <numbers>
#include <utility>
#include <vector>

using namespace normplace;
using detail::NetworkBeforeStep;
using detail::NewSequence;

namespace {

ReferenceModel small_model(bool causal = false) {
    ReferenceModel model;
    model.layers = 3;
    model.width = 32;
    model.feed_forward = 64;
    model.sequence = 4;
    model.batch = 2;
    model.vocabulary = 11;
    model.causal = causal;
    return model;
}

template <class P>
NetworkBeforeStep network_of(const ReferenceModel& model, const detail::PredictionInput& input,
                             const StepRule& rule = StepRule::adam()) {
    return {any_placement<P>, model, rule, input};
}

struct Streams {
    std::vector<SteppedActivations> blocks;
    SteppedActivations hidden;
    Streams(const NetworkBeforeStep& network, const NewSequence& next, double eta, double weight_decay = 0.0) {
        hidden = network.run(next, {network.crossing(), eta, weight_decay},
                             [&](const SteppedActivations& x) { blocks.push_back(x); });
    }
};

/// Means over tokens and over pairs of different ones, which a report holds as their ratio.
WithinMean mean(const NetworkBeforeStep& network, const SteppedActivations& x) {
    return mean_within(network.crossing().after(), x.covariance);
}

TokenBatch batch_of(std::vector<int> tokens) {
    std::vector<int> targets = tokens;
    for (int& target : targets) target = (target * 7 + 3) % 11;
    return {2, 4, std::move(tokens), std::move(targets)};
}

}  // namespace

TEST_CASE("NetworkBeforeStep: without a step, the streams of predict() at great width") {
    for (const bool causal : {false, true}) {
        ReferenceModel model = small_model(causal);
        model.width = model.feed_forward = 1000000000;
        model.heads = 100000;  // weights of few heads fluctuate at any width
        for (const AnyPlacement* placement : all_placements()) {
            if (!has_first_step(*placement)) continue;
            CAPTURE(placement->name);
            const GradientReport report = predict(*placement, model);
            const NetworkBeforeStep network(*placement, model, StepRule::adam(),
                                            detail::random_tokens(model, detail::input_square(*placement, model)));
            const NewSequence next =
                detail::random_sequence(network.crossing(), detail::input_square(*placement, model));
            const Streams streams(network, next, 0.0);
            CHECK(streams.blocks.size() == 6);
            for (std::size_t b = 0; b < 6; ++b) {
                CAPTURE(b);
                const LayerReport& layer = report.layers[b / 2];
                const SublayerReport& expected = b % 2 == 0 ? layer.attention : layer.feed_forward;
                const WithinMean stream = mean(network, streams.blocks[b]);
                CHECK(stream.same == doctest::Approx(expected.stream.second_moment.value).epsilon(1e-6));
                CHECK(stream.different / stream.same ==
                      doctest::Approx(expected.stream.token_correlation.value).epsilon(1e-6));
            }
            const WithinMean last = mean(network, streams.blocks.back()), hidden = mean(network, streams.hidden);
            CHECK(hidden.same == doctest::Approx(placement->final_norm() ? 1.0 : last.same).epsilon(1e-4));
            if (!causal)  // where all tokens are of one size
                CHECK(hidden.different / hidden.same == doctest::Approx(last.different / last.same).epsilon(1e-4));
        }
    }
}

TEST_CASE("NetworkBeforeStep: a small step that is twice as large goes twice as far") {
    const ReferenceModel model = small_model();
    const NetworkBeforeStep network = network_of<PreLN>(model, detail::random_tokens(model), StepRule::sgd());
    const NewSequence next = detail::random_sequence(network.crossing());
    const Streams one(network, next, 1e-9), two(network, next, 2e-9);
    CHECK(one.blocks[0].amplitude[0] > 0.0);
    for (std::size_t b = 0; b < 6; ++b) {
        CHECK(two.blocks[b].amplitude[0] == doctest::Approx(2.0 * one.blocks[b].amplitude[0]).epsilon(1e-6));
        CHECK(two.blocks[b].change[0] == doctest::Approx(4.0 * one.blocks[b].change[0]).epsilon(1e-6));
    }
}

TEST_CASE("NetworkBeforeStep: moved, it still stands on itself") {
    const ReferenceModel model = small_model(true);
    NetworkBeforeStep first = network_of<PostLN>(model, detail::random_tokens(model));
    const NewSequence next = detail::random_sequence(first.crossing());
    const double before = Streams(first, next, 1e-3).hidden.covariance[1];
    const NetworkBeforeStep second = std::move(first);
    CHECK(Streams(second, next, 1e-3).hidden.covariance[1] == before);
}

TEST_CASE("random_sequence: independent of one another and of all old tokens") {
    for (const bool causal : {false, true}) {
        const ReferenceModel model = small_model(causal);
        const Crossing crossing(detail::random_tokens(model).layout, causal);
        const NewSequence next = detail::random_sequence(crossing);
        CHECK(crossing.after().trace(next.covariance) == 4.0);
        CHECK(crossing.after().total_within(next.covariance) == 4.0);
        for (const double c : next.crossed) CHECK(c == 0.0);
        CHECK(next.pull.size() == 0);
    }
}

TEST_CASE("given_sequence: what tokens share by their bytes and positions, and how their rows of the tables move") {
    const TokenBatch batch = batch_of({1, 2, 1, 3, 2, 2, 5, 1}), next = batch_of({2, 7, 7, 1, 0, 0, 0, 0});
    const Crossing crossing(TokenLayout::by_token(2, 4), true);
    FoldedKernel gradient(64);
    for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t k = 0; k < 8; ++k) gradient[8 * i + k] = i == k ? 4.0 : 0.1 * static_cast<double>(i + k);
    const NewSequence sgd = detail::given_sequence(crossing, gradient, StepRule::sgd(), batch, next),
                      adam = detail::given_sequence(crossing, gradient, StepRule::adam(0.0), batch, next);
    const double c = std::sqrt(2.0 / std::numbers::pi);
    const auto square = [&](auto&& reads) {  // of a table's row, by the old tokens that read it
        double sum = 0.0;
        for (std::size_t i = 0; i < 8; ++i)
            for (std::size_t k = 0; k < 8; ++k)
                if (reads(i) && reads(k)) sum += gradient[8 * i + k];
        return sum;
    };
    for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t j = 0; j < 4; ++j) {
            CAPTURE(i);
            CAPTURE(j);
            const bool same_token = batch.tokens[i] == next.tokens[j], same_position = i % 4 == j;
            const std::size_t e = 4 * i + j;
            CHECK(sgd.crossed[e] == 0.5 * same_token + 0.5 * same_position);
            CHECK(sgd.pull[e] == 1.0 * same_token + 1.0 * same_position);
            double pull = 0.0;
            if (same_token)
                pull += c / std::sqrt(square([&](std::size_t k) { return batch.tokens[k] == next.tokens[j]; }));
            if (same_position) pull += c / std::sqrt(square([&](std::size_t k) { return k % 4 == j; }));
            CHECK(adam.pull[e] == doctest::Approx(pull));
        }
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 4; ++j) {
            const bool same_token = next.tokens[i] == next.tokens[j];
            CHECK(adam.covariance[4 * i + j] == 0.5 * same_token + 0.5 * (i == j));
            if (!same_token) CHECK(adam.noise[4 * i + j] == 0.0);
        }
    // A byte that the old batch does not hold has a row that does not move, like that of tokens 1 and 2 here.
    CHECK(adam.noise[4 * 1 + 2] == 0.0);
    CHECK(adam.noise[4 * 1 + 1] > 0.0);                  // its position's does
    CHECK(adam.noise[0] > 1.5 * adam.noise[4 * 1 + 1]);  // and here both
}

TEST_CASE("NetworkBeforeStep: a text's old batch as the next one crosses as itself") {
    ReferenceModel model = small_model(true);
    model.width = model.feed_forward = 1000000000;
    model.heads = 100000;
    const TokenBatch batch = batch_of({1, 2, 1, 3, 2, 2, 5, 1});
    const NetworkBeforeStep network = network_of<PeriLN>(model, detail::given_tokens(batch));
    const NewSequence next =
        detail::given_sequence(network.crossing(), network.input_gradient(), StepRule::adam(), batch, batch);
    const Streams streams(network, next, 0.0);
    for (const SteppedActivations& x : streams.blocks)
        for (std::size_t e = 0; e < 16; ++e)  // the first sequence's rows are the new tokens themselves
            CHECK(x.crossed[e] == doctest::Approx(x.covariance[e]).epsilon(1e-6));
    // And any step moves them.
    const Streams stepped(network, next, 1e-12);
    for (std::size_t e = 0; e < 16; e += 5) CHECK(stepped.hidden.change[e] > 0.0);
}

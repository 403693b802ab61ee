// SPDX-License-Identifier: BSD-3-Clause
//
// A stack as a recursion: through layers of which each does in closed form what it should, forward and backward, and
// every number in the report of its own layer. What the blocks themselves do is tested beside them.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <normplace/analysis/report.hpp>
#include <normplace/analysis/stack_moments.hpp>
#include <normplace/placement/catalogue.hpp>
#include <numbers>
#include <string>
#include <vector>

using namespace normplace;
using detail::ReportedLayer;
using detail::ReportSums;
using detail::ScoreRange;
using detail::StackMoments;

namespace {

constexpr std::size_t layers = 3, tokens = 4;
constexpr double width = 16.0;

// Uniform attention, D x D matrices of variance 1/D: all scales are 1, and no matrix adds anything by itself.
ReferenceModel plain_model() {
    ReferenceModel model;
    model.layers = layers;
    model.width = model.feed_forward = 16;
    model.sequence = tokens;
    model.batch = 1;
    model.initialization = Initialization::paper();
    return model;
}

struct Stack {
    template <Placement P>
    Stack(P, const ReferenceModel& model)
        : layout(TokenLayout::exchangeable(model.batch, model.sequence)),
          report(empty_report(any_placement<P>, model)),
          kernel(model.activation),
          moments(any_placement<P>, model, kernel, softmax, Depth{}),
          scores(model.sequence) {
        for (LayerReport& layer : report.layers) reported.push_back({&layer});
        sums.next_input();
    }

    TokenLayout layout;
    GradientReport report;
    ActivationKernel kernel;
    SoftmaxTable softmax;
    StackMoments moments;
    ScoreRange scores;
    ReportSums sums;
    std::vector<ReportedLayer> reported;
};

// Of one token, and of two different ones.
struct Pair {
    double same, different;
    double mean() const { return (same + (tokens - 1.0) * different) / tokens; }
    double sum() const { return tokens * tokens * mean(); }
    double inner(const Pair& other) const {
        return tokens * (same * other.same + (tokens - 1.0) * different * other.different);
    }
};

// Cho and Saul 2009: E phi(u) phi(v) and E phi'(u) phi'(v) of ReLU, at q = K_ii and K_ij = q cos(angle).
Pair rectified(const Pair& k) {
    const double angle = std::acos(k.different / k.same);
    return {k.same / 2.0,
            k.same / (2.0 * std::numbers::pi) * (std::sin(angle) + (std::numbers::pi - angle) * std::cos(angle))};
}
Pair slopes(const Pair& k) {
    return {0.5, (std::numbers::pi - std::acos(k.different / k.same)) / (2.0 * std::numbers::pi)};
}

}  // namespace

TEST_CASE("StackMoments: x + f(x) of uniform attention and ReLU, layer after layer and back") {
    Stack stack(NoNorm{}, plain_model());
    // Attention adds the mean over tokens to every pair; the feed-forward adds E phi phi.
    std::vector<Pair> entering{{1.0, 0.1}};
    stack.moments.forward(stack.layout, {1.0, 0.1, 0.0}, stack.reported, stack.scores, stack.sums);
    for (std::size_t l = 0; l < layers; ++l) {
        CAPTURE(l);
        const Pair x = entering.back();
        const Pair between{x.same + x.mean(), x.different + x.mean()};
        const Pair activated = rectified(between);
        entering.push_back(between);
        entering.push_back({between.same + activated.same, between.different + activated.different});
        const LayerReport& layer = stack.report.layers[l];
        CHECK(layer.attention.stream.second_moment.value == doctest::Approx(between.same));
        CHECK(layer.attention.stream.token_correlation.value == doctest::Approx(between.different / between.same));
        CHECK(layer.feed_forward.stream.second_moment.value == doctest::Approx(entering.back().same));
        CHECK(layer.feed_forward.stream.token_correlation.value ==
              doctest::Approx(entering.back().different / entering.back().same));
    }
    CHECK(stack.moments.output()[0][0] == doctest::Approx(entering.back().same));
    CHECK(stack.moments.output()[0][1] == doctest::Approx(entering.back().different));
    CHECK(stack.moments.output_fluctuations()[0].relative > 1.0 / width);  // every matrix adds to the input's

    Pair g{2.0, 0.3};
    const TokenKernel back = stack.moments.backward(stack.layout, TokenKernel{2.0, 0.3, 0.0}, stack.reported,
                                                    {1e3, 1e3}, stack.scores, stack.sums);
    for (std::size_t l = layers; l-- > 0;) {
        CAPTURE(l);
        LayerReport& layer = stack.report.layers[l];
        stack.sums.finish(layer);
        const Pair between = entering[2 * l + 1], x = entering[2 * l];
        CHECK(layer.feed_forward.stream.gradient_second_moment.value == doctest::Approx(g.same));
        const Pair slope = slopes(between), inner{g.same * slope.same, g.different * slope.different};
        CHECK(layer.w2.norm == doctest::Approx(width * std::sqrt(g.inner(rectified(between)))));
        CHECK(layer.w1.norm == doctest::Approx(width * std::sqrt(inner.inner(between))));
        CHECK(layer.b2.norm == doctest::Approx(std::sqrt(width * g.sum())));
        CHECK(layer.b1.norm == doctest::Approx(std::sqrt(width * inner.sum())));
        g = {g.same + inner.same, g.different + inner.different};
        CHECK(layer.attention.stream.gradient_second_moment.value == doctest::Approx(g.same));
        // Every token's value gets the mean of all gradients, and its query and key nothing.
        const Pair mean_gradient{g.mean(), g.mean()}, mean_token{x.mean(), x.mean()};
        CHECK(layer.wv.norm == doctest::Approx(width * std::sqrt(mean_gradient.inner(x))));
        CHECK(layer.wo.norm == doctest::Approx(width * std::sqrt(g.inner(mean_token))));
        CHECK(layer.bo.norm == doctest::Approx(std::sqrt(width * g.sum())));
        CHECK(layer.wq.norm == 0.0);
        CHECK(layer.wk.norm == 0.0);
        CHECK(layer.bk.norm == 0.0);
        g = {g.same + g.mean(), g.different + g.mean()};
    }
    CHECK(back[0] == doctest::Approx(g.same));
    CHECK(back[1] == doctest::Approx(g.different));
}

TEST_CASE(
    "StackMoments: what the loss sends along the hidden state reaches the norm that ends the stack, and no other") {
    const auto with = [](auto placement, const NormSquares& last_norm) {
        Stack stack(placement, plain_model());
        stack.moments.forward(stack.layout, {1.0, 0.0, 0.0}, stack.reported, stack.scores, stack.sums);
        stack.moments.backward(stack.layout, TokenKernel{1.0, 0.0, 0.0}, stack.reported, last_norm, stack.scores,
                               stack.sums);
        return stack.report;  // squares of norms
    };
    const auto differences = [&](auto placement) {
        const GradientReport nothing = with(placement, {}), added = with(placement, {3.0, 5.0});
        std::string text;
        for (std::size_t l = 0; l < layers; ++l)
            for (const auto sublayer : {&LayerReport::attention, &LayerReport::feed_forward})
                for (std::size_t n = 0; n < (added.layers[l].*sublayer).norms.size(); ++n) {
                    const NormGradients &a = (added.layers[l].*sublayer).norms[n],
                                        &b = (nothing.layers[l].*sublayer).norms[n];
                    if (a.gain.norm == b.gain.norm && a.bias.norm == b.bias.norm) continue;
                    CHECK(a.gain.norm - b.gain.norm == doctest::Approx(3.0));
                    CHECK(a.bias.norm - b.bias.norm == doctest::Approx(5.0));
                    text +=
                        std::to_string(l) + (sublayer == &LayerReport::attention ? " attention " : " ffn ") + a.name;
                }
        return text;
    };
    CHECK(differences(PostLN{}) == "2 ffn norm");
    CHECK(differences(PreLN{}).empty());  // that is the final norm, which is the loss's
    CHECK(differences(ResPostNorm{}).empty());
    CHECK(differences(NoNorm{}).empty());
}

TEST_CASE("StackMoments: a placement's gains scale its matrices, by layer and by kind") {
    struct Growing : NoNorm {
        static double gain(Role role, const Depth& depth) {
            return role == Role::linear2 ? static_cast<double>(depth.layer) : role == Role::value ? 0.0 : 1.0;
        }
    };
    // W_v = 0 leaves attention nothing to add, and W_2 adds l^2 / 2 of what enters.
    Stack stack(Growing{}, plain_model());
    stack.moments.forward(stack.layout, {1.0, 0.0, 0.0}, stack.reported, stack.scores, stack.sums);
    double x = 1.0;
    for (std::size_t l = 0; l < layers; ++l) {
        const LayerReport& layer = stack.report.layers[l];
        CHECK(layer.attention.stream.second_moment.value == doctest::Approx(x));
        x *= 1.0 + 0.5 * static_cast<double>((l + 1) * (l + 1));
        CHECK(layer.feed_forward.stream.second_moment.value == doctest::Approx(x));
    }
}

TEST_CASE("StackMoments: cross-attention stands between the other two, and is asked of the memory") {
    // Adds 2 to every token's second moment and takes nothing of the gradient.
    struct Constant final : AnyAttentionMoments {
        TokenKernel forward(const TokenKernel& input, const Fluctuation&) override {
            TokenKernel output(input.size(), 0.0);
            output[0] = 2.0;
            return output;
        }
        double transfer() const override { return 0.0; }
        double fresh(const Fluctuation&) const override { return 0.0; }
        double norm_variance() const override { return 0.0; }
        TokenKernel backward(const TokenKernel& gradient) override {
            squares.wv = gradient[0];
            squares.wq = 1.0;
            return TokenKernel(gradient.size(), 0.0);
        }
        double score_variance() const override { return 3.0; }
    };
    struct Memory final : detail::AnyMemory {
        using AnyMemory::AnyMemory;
        std::unique_ptr<AnyAttentionMoments> attention(const TokenLayout&, const AttentionScales& scales,
                                                       SoftmaxTable&) override {
            CHECK(scales.query == 0.0);
            CHECK(scales.value == doctest::Approx(1.0));
            return std::make_unique<Constant>();
        }
    };
    for (const std::size_t keys : {std::size_t(4), std::size_t(5)}) {  // 2 ln 4 = 2.8, 2 ln 5 = 3.2
        CAPTURE(keys);
        Memory memory(keys);
        Stack stack(NoNorm{}, plain_model());
        std::vector<CrossAttentionReport> cross(layers);
        for (std::size_t l = 0; l < layers; ++l) stack.reported[l].cross_attention = &cross[l];
        StackMoments decoder(any_placement<NoNorm>, plain_model(), stack.kernel, stack.softmax, Depth{}, &memory);
        decoder.forward(stack.layout, {1.0, 0.0, 0.0}, stack.reported, stack.scores, stack.sums);
        decoder.backward(stack.layout, TokenKernel{1.0, 0.0, 0.0}, stack.reported, {}, stack.scores, stack.sums);
        for (std::size_t l = 0; l < layers; ++l) {
            LayerReport& layer = stack.report.layers[l];
            const double between = layer.attention.stream.second_moment.value;
            CHECK(cross[l].stream.second_moment.value == doctest::Approx(between + 2.0));
            CHECK(layer.feed_forward.stream.second_moment.value == doctest::Approx(1.5 * (between + 2.0)));
            CHECK(cross[l].stream.gradient_second_moment.value ==
                  doctest::Approx(1.5 * layer.feed_forward.stream.gradient_second_moment.value));
            CHECK(layer.attention.stream.gradient_second_moment.value == cross[l].stream.gradient_second_moment.value);
            CHECK(cross[l].wv.norm == cross[l].stream.gradient_second_moment.value);  // a square, until it is finished
            if (keys == 4) CHECK(std::isnan(cross[l].wq.norm));  // its scores are too large to predict W_q
            else CHECK(cross[l].wq.norm == 1.0);
        }
        std::vector<std::string> warnings;
        memory.scores.warn("the cross-attention", warnings);
        CHECK(warnings.size() == (keys == 4 ? 1 : 0));
    }
}

TEST_CASE("ScoreRange: the largest variance, the first layer, and no warning without one") {
    std::vector<std::string> warnings;
    ScoreRange scores(8);  // 2 ln 8 = 4.159
    scores.check(4.15, 1);
    scores.warn("the attention", warnings);
    CHECK(warnings.empty());
    scores.check(5.0, 4);
    scores.check(7.25, 3);
    scores.check(6.0, 5);
    scores.warn("the attention", warnings);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].starts_with("the attention scores' variance reaches 7.25, above 2 ln n = 4.16 (n = 8), where "));
    CHECK(warnings[0].find("(the first is layer 3)") != std::string::npos);
    CHECK_FALSE(ScoreRange(1).exceeded(1e9));  // one key gets all the weight, whatever its score
    CHECK(ScoreRange(2).exceeded(1.4));
    CHECK_FALSE(ScoreRange(2).exceeded(1.38));
}

TEST_CASE("StackMoments: W_q and W_k have no prediction in the layers whose scores are too large, all else has") {
    struct Hot : PreLN {
        static double gain(Role role, const Depth& depth) {
            return role == Role::query && depth.layer == 2 ? 3.0 : 1.0;
        }
    };
    ReferenceModel model = plain_model();
    model.initialization = Initialization::xavier();
    Stack stack(Hot{}, model);
    stack.moments.forward(stack.layout, {1.0, 0.0, 0.0}, stack.reported, stack.scores, stack.sums);
    stack.moments.backward(stack.layout, TokenKernel{1.0, 0.0, 0.0}, stack.reported, {}, stack.scores, stack.sums);
    for (std::size_t l = 0; l < layers; ++l) {
        CAPTURE(l);
        const LayerReport& layer = stack.report.layers[l];
        CHECK(std::isnan(layer.wq.norm) == (l == 1));
        CHECK(std::isnan(layer.wk.norm) == (l == 1));
        CHECK(std::isnan(layer.bq.norm) == (l == 1));
        CHECK(layer.wv.norm > 0.0);
        CHECK(layer.w2.norm > 0.0);
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//
// Sublayers after a step: against explicit random matrices, and in the limits that have closed forms.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/feed_forward_moments.hpp>
#include <normplace/analysis/self_attention_moments.hpp>
#include <normplace/analysis/step_sublayer.hpp>
#include <vector>

#include "draw_step.hpp"

using namespace normplace;
using namespace draw_step;

namespace {

struct Case {
    StepRule rule;
    double eta;
    double entering = 0.0;   // amplitude, of all old and new tokens, with which the new tokens arrive
    double tolerance = 0.0;  // relative to the largest entry, beside four standard errors
};

// What is left out beside the moments: the tokens' number over the width; and that a sign pulls less where inputs are
// large, for which the moments take one pull for all entries.
constexpr double finite_width = 0.05, one_pull = 0.12;

CrossedKernel amplitude_of(const Case& c) { return CrossedKernel(tokens * sequence, c.entering); }

struct Run {
    explicit Run(const Covariances& covariances) : setting(covariances) {}
    void predict(SublayerStep& step, const Case& c, const TokenKernel& input_gradient) {
        const Crossing& crossing = setting.crossing;
        const detail::StepContext context{crossing, c.eta, c.rule.weight_decay};
        SteppedActivations input{setting.next, setting.crossed, amplitude_of(c), TokenKernel(sequence * sequence)};
        detail::add_coherent(context, crossing.fold(input_gradient), input);
        predicted.push_back(step.step(context, input));
    }
    void check(const std::vector<Case>& cases) const {
        for (std::size_t i = 0; i < cases.size(); ++i) {
            CAPTURE(cases[i].rule.name);
            CAPTURE(cases[i].eta);
            CAPTURE(cases[i].entering);
            check_same(measured[i], predicted[i], setting.crossing, setting.gradient, cases[i].tolerance);
        }
    }

    const Covariances setting;
    std::vector<Measured> measured;
    std::vector<SteppedActivations> predicted;
};

/// W_2 relu(W_1 x).
Run run_feed_forward(const Covariances& setting, const std::vector<Case>& cases, unsigned draws, bool just) {
    constexpr std::size_t d = 400, f = 600;
    constexpr double s1 = 0.8, s2 = 1.5;
    Run run(setting);
    run.measured.resize(cases.size());
    std::vector<MatrixDecomposition> linear1, linear2;
    for (const Case& c : cases) linear1.emplace_back(c.rule), linear2.emplace_back(c.rule);
    for (unsigned seed = 0; seed < draws; ++seed) {
        Drawing drawing(seed);
        const Dense all = drawing.vectors(setting.mixing, d, just),
                    g = drawing.vectors(setting.gradient_mixing, d, just);
        const Dense x = rows(all, 0, tokens), next = rows(all, tokens, sequence);
        Trained w1{drawing.matrix(f, d, s1), {}, {}, {}}, w2{drawing.matrix(d, f, s2), {}, {}, {}};
        const Dense u = w1(x), activated = rectified(u), before = w2(rectified(w1(next)));
        Dense hidden = product(g, w2.weight);
        for (std::size_t i = 0; i < tokens; ++i)
            for (std::size_t k = 0; k < f; ++k) hidden[i][k] *= u[i][k] > 0.0;
        const Dense input_gradient = product(hidden, w1.weight), output = w2(activated);
        w1.differentiate(hidden, x);
        w2.differentiate(g, activated);
        for (std::size_t i = 0; i < cases.size(); ++i) {
            const Case& c = cases[i];
            linear1[i].add(w1), linear2[i].add(w2);
            const Dense arriving = pulled_along(next, amplitude_of(c), input_gradient);
            const Trained w1_after = w1.after(c.rule, c.eta), w2_after = w2.after(c.rule, c.eta);
            run.measured[i].add(output, before, w2_after(rectified(w1_after(arriving))), g);
        }
    }

    const Crossing& crossing = setting.crossing;
    ActivationKernel kernel(relu);
    FeedForwardMoments moments(crossing.before(), {d, f, s1, s2}, kernel);
    moments.forward(setting.old, {});
    const TokenKernel input_gradient = moments.backward(setting.gradient);
    TokenKernel hidden = setting.gradient;
    for (std::size_t e = 0; e < hidden.size(); ++e)
        hidden[e] *= s2 * static_cast<double>(d) / static_cast<double>(f) * moments.derivative()[e];
    for (std::size_t i = 0; i < cases.size(); ++i) {
        FeedForwardStep step(kernel);
        step.linear1 = linear1[i].get(s1, d);
        step.linear2 = linear2[i].get(s2, f);
        step.pre_activation = crossing.before().diagonal_of(setting.old);
        for (double& q : step.pre_activation) q *= s1;
        step.hidden_gradient = crossing.fold(hidden);
        step.output_gradient = crossing.fold(setting.gradient);
        run.predict(step, cases[i], input_gradient);
    }
    return run;
}

/// One head of softmax attention over each sequence, with its gradients. Its step leaves W_q and W_k alone.
struct Head {
    Trained query, key, value, out;
    bool causal;
    Dense heads{}, input_gradient{}, q{}, k{}, v{}, weights{};

    Dense operator()(const Dense& x) { return out(attend(x)); }
    Dense attend(const Dense& x) {
        q = query(x), k = key(x), v = value(x);
        weights = zeros(x.size(), x.size());
        const double root = std::sqrt(static_cast<double>(x[0].size()));
        for (std::size_t i = 0; i < x.size(); ++i) {
            double total = 0.0;
            for_each_key(i, [&](std::size_t j) { total += weights[i][j] = std::exp(dot(q[i], k[j]) / root); });
            for_each_key(i, [&](std::size_t j) { weights[i][j] /= total; });
        }
        return product(weights, v);
    }
    void differentiate(const Dense& x, const Dense& g) {
        heads = attend(x);
        const double root = std::sqrt(static_cast<double>(x[0].size()));
        const Dense heads_gradient = product(g, out.weight), along = product(heads_gradient, transposed(v));
        Dense scores = zeros(x.size(), x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            double mean = 0.0;
            for_each_key(i, [&](std::size_t j) { mean += weights[i][j] * along[i][j]; });
            for_each_key(i, [&](std::size_t j) { scores[i][j] = weights[i][j] * (along[i][j] - mean) / root; });
        }
        const Dense value_gradient = product(transposed(weights), heads_gradient), query_gradient = product(scores, k),
                    key_gradient = product(transposed(scores), q);
        input_gradient = plus(plus(product(value_gradient, value.weight), product(query_gradient, query.weight)),
                              product(key_gradient, key.weight));
        value.differentiate(value_gradient, x);
        out.differentiate(g, heads);
    }
    Head after(const StepRule& rule, double eta) const {
        Head result = *this;
        for (Trained* matrix : {&result.value, &result.out}) *matrix = matrix->after(rule, eta);
        return result;
    }

    template <class Function>
    void for_each_key(std::size_t i, Function&& function) const {
        const std::size_t first = i / sequence * sequence;
        for (std::size_t j = first; j < (causal ? i + 1 : first + sequence); ++j) function(j);
    }
};

Run run_attention(const Covariances& setting, bool causal, double score, const std::vector<Case>& cases,
                  unsigned draws) {
    constexpr std::size_t d = 256;
    const AttentionScales scales{.width = d, .query = score, .key = score, .value = 0.8, .out = 1.3, .causal = causal};
    Run run(setting);
    run.measured.resize(cases.size());
    std::vector<MatrixDecomposition> value, out;
    for (const Case& c : cases) value.emplace_back(c.rule), out.emplace_back(c.rule);
    for (unsigned seed = 0; seed < draws; ++seed) {
        Drawing drawing(seed);
        const Dense all = drawing.vectors(setting.mixing, d, true),
                    g = drawing.vectors(setting.gradient_mixing, d, true);
        const Dense x = rows(all, 0, tokens), next = rows(all, tokens, sequence);
        const auto trained = [&](double scale) { return Trained{drawing.matrix(d, d, scale), {}, {}, {}}; };
        Head head{trained(scales.query), trained(scales.key), trained(scales.value), trained(scales.out), causal};
        head.differentiate(x, g);
        const Dense output = head(x), before = head(next);
        for (std::size_t i = 0; i < cases.size(); ++i) {
            const Case& c = cases[i];
            value[i].add(head.value), out[i].add(head.out);
            run.measured[i].add(output, before,
                                head.after(c.rule, c.eta)(pulled_along(next, amplitude_of(c), head.input_gradient)), g);
        }
    }

    const Crossing& crossing = setting.crossing;
    SoftmaxTable table;
    AttentionMoments moments(crossing.before(), scales, table);
    moments.forward(setting.old, {});
    const TokenKernel input_gradient = moments.backward(setting.gradient);
    TokenKernel heads = setting.gradient;
    for (double& g : heads) g *= scales.out;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        AttentionStep step(scales, table);
        step.query.scale = scales.query;
        step.key.scale = scales.key;
        step.value = value[i].get(scales.value, d);
        step.out = out[i].get(scales.out, d);
        step.queries = detail::query_ratios(crossing.before(), setting.old, moments.softmax());
        step.heads_gradient = crossing.fold(heads);
        step.output_gradient = crossing.fold(setting.gradient);
        run.predict(step, cases[i], input_gradient);
    }
    return run;
}

}  // namespace

TEST_CASE("one matrix after a step: SGD pulls by eta m C") {
    const Crossing crossing(TokenLayout::by_token(2, 2), true);
    const StepRule rule = StepRule::sgd(0.5, true);
    const MatrixStep matrix{0.7, 300.0, decompose_step(rule, 4.0, 3.0), decompose_step(rule, 9.0, 3.0)};
    constexpr double eta = 1e-3;
    SteppedActivations x{TokenKernel(4, 0.5), crossing.zero(), crossing.zero(), TokenKernel(4, 0.25)};
    for (std::size_t e = 0; e < x.crossed.size(); ++e) x.crossed[e] = number(e), x.amplitude[e] = number(e + 50);
    const SteppedActivations before = x;
    detail::step_matrix({crossing, eta, 0.0}, matrix, x);
    for (std::size_t e = 0; e < x.crossed.size(); ++e) {
        CHECK(x.crossed[e] == doctest::Approx(0.7 * before.crossed[e]));
        CHECK(x.amplitude[e] ==
              doctest::Approx(0.7 * before.amplitude[e] + 1.5 * eta * (300.0 * before.crossed[e] + 1.0)));
    }
    // Weight decay, 1/4 at this learning rate: W and what comes through it shrink, the step does not.
    SteppedActivations decayed = before;
    detail::step_matrix({crossing, eta, 250.0}, matrix, decayed);
    for (std::size_t e = 0; e < x.crossed.size(); ++e) {
        CHECK(decayed.crossed[e] == doctest::Approx(0.75 * x.crossed[e]));
        CHECK(decayed.amplitude[e] == doctest::Approx(x.amplitude[e] - 0.25 * 0.7 * before.amplitude[e]));
    }
    for (std::size_t e = 0; e < 4; ++e) {
        CHECK(x.covariance[e] - decayed.covariance[e] == doctest::Approx(0.7 * 0.5 * (1.0 - 0.75 * 0.75)));
        CHECK(x.change[e] - decayed.change[e] == doctest::Approx(0.7 * 0.25 * (1.0 - 0.75 * 0.75)));
    }
}

TEST_CASE("one matrix after a step: tokens that share nothing with the old ones feel all of it as noise") {
    // A step of independent entries u makes of a new token x a vector of second moment eta^2 |x|^2 E u^2. Without a
    // bias.
    constexpr std::size_t inputs = 400, outputs = 200;
    constexpr double eta = 1e-2;
    const Covariances setting(true, true);
    for (const StepRule& rule : {StepRule::adam(0.0), StepRule::sgd()}) {
        CAPTURE(rule.name);
        MatrixDecomposition decomposition(rule);
        Sample change;
        for (unsigned seed = 0; seed < 8; ++seed) {
            Drawing drawing(seed);
            const Dense all = drawing.vectors(setting.mixing, inputs, false);
            Trained matrix{zeros(outputs, inputs), {}, {}, {}};
            matrix.differentiate(drawing.vectors(setting.gradient_mixing, outputs, false), rows(all, 0, tokens));
            decomposition.add(matrix);
            const Dense moved = apply(matrix.after(rule, eta).weight, rows(all, tokens, sequence));
            change.add(overlap(moved, moved));
        }
        MatrixStep matrix = decomposition.get(0.0, inputs);
        matrix.bias = {};
        SteppedActivations x{setting.next, setting.crossed, setting.crossing.zero(), TokenKernel(sequence * sequence)};
        const detail::StepContext context{setting.crossing, eta, 0.0};
        detail::step_matrix(context, matrix, x);
        detail::add_coherent(context, setting.crossing.fold(setting.gradient), x);
        check_same("change", change, expand(setting.crossing.after(), x.change), finite_width);
        CHECK(x.covariance[0] == doctest::Approx(x.change[0]));
    }
}

TEST_CASE("feed-forward after a step: against explicit matrices") {
    const StepRule adam = StepRule::adam(0.0), sgd = StepRule::sgd();
    const std::vector<Case> cases{{adam, 1e-5, 0.0, one_pull},
                                  {adam, 1e-3, 0.2, one_pull},
                                  {sgd, 1e-5, 0.0, finite_width},
                                  {sgd, 1e-3, 0.2, finite_width}};
    run_feed_forward(Covariances(), cases, 6, true).check(cases);
}

TEST_CASE("feed-forward after a step: tokens that share nothing with the old ones") {
    const std::vector<Case> cases{{StepRule::sgd(), 3e-3, 0.0, finite_width}};
    run_feed_forward(Covariances(true, true), cases, 4, false).check(cases);
}

TEST_CASE("attention after a step of W_v and W_o: against explicit matrices") {
    const StepRule adam = StepRule::adam(0.0), sgd = StepRule::sgd();
    const std::vector<Case> cases{
        {adam, 1e-5, 0.0, one_pull}, {sgd, 1e-5, 0.0, finite_width}, {sgd, 1e-3, 0.2, finite_width}};
    for (const bool causal : {false, true})
        for (const double score : {0.0, 0.7}) {
            CAPTURE(causal);
            CAPTURE(score);
            run_attention(Covariances(causal), causal, score, cases, 3).check(cases);
        }
}

TEST_CASE("without a step, sublayers do to new tokens what they did to old ones") {
    SoftmaxTable table;
    ActivationKernel kernel(gelu);
    for (const bool causal : {false, true})
        for (const TokenLayout& layout :
             {TokenLayout::exchangeable(1, 5), TokenLayout::by_position(1, 5), TokenLayout::by_token(1, 5)}) {
            if (causal && layout.is_exchangeable()) continue;
            CAPTURE(causal);
            const Crossing crossing(layout, causal);
            const AttentionScales scales{
                .width = 64.0, .query = 0.9, .key = 1.1, .value = 0.8, .out = 1.3, .causal = causal};
            const TokenKernel k = some_kernel(layout, 6);
            AttentionMoments attention(layout, scales, table);
            FeedForwardMoments feed_forward(layout, {64.0, 256.0, 0.8, 1.5}, kernel);
            const TokenKernel attended = attention.forward(k, {}), fed = feed_forward.forward(k, {});

            const detail::StepContext context{crossing, 0.0, 0.1};
            const StepDecomposition some{3.0, 2.0};
            const FoldedKernel gradient(crossing.rows() * crossing.rows(), 1.0);
            AttentionStep attention_step(scales, table);
            attention_step.query = attention_step.key = {1.0, 64.0, some, some};
            attention_step.value = {scales.value, 64.0, some, some};
            attention_step.out = {scales.out, 64.0, some, some};
            attention_step.heads_gradient = attention_step.output_gradient = gradient;
            attention_step.queries = detail::query_ratios(layout, k, attention.softmax());
            FeedForwardStep feed_forward_step(kernel);
            feed_forward_step.linear1 = {0.8, 64.0, some, some};
            feed_forward_step.linear2 = {1.5, 256.0, some, some};
            feed_forward_step.pre_activation = layout.diagonal_of(k);
            for (double& q : feed_forward_step.pre_activation) q *= 0.8;
            feed_forward_step.hidden_gradient = feed_forward_step.output_gradient = gradient;

            // New tokens that are the old ones: crossed covariances are their own. Exchangeable tokens have no such.
            CrossedKernel crossed = crossing.zero();
            if (!layout.is_exchangeable()) crossed = k;
            const SteppedActivations input{k, crossed, crossing.zero(), TokenKernel(layout.entries())};
            const auto check = [&](const SteppedActivations& output, const TokenKernel& expected) {
                for (std::size_t e = 0; e < expected.size(); ++e) {
                    if (layout.is_exchangeable() && e == 2) continue;  // there is no other sequence
                    CHECK(output.covariance[e] == doctest::Approx(expected[e]).epsilon(1e-12));
                    CHECK(output.change[e] == 0.0);
                }
                for (std::size_t e = 0; e < crossed.size(); ++e) {
                    CHECK(output.amplitude[e] == 0.0);
                    if (!layout.is_exchangeable())
                        CHECK(output.crossed[e] == doctest::Approx(expected[e]).epsilon(1e-12));
                }
            };
            check(attention_step.step(context, input), attended);
            check(feed_forward_step.step(context, input), fed);
        }
}

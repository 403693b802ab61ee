// SPDX-License-Identifier: BSD-3-Clause
//
// The measurement of the first step: its definitions, one by one, and its errors. Whether it agrees with the prediction
// is another test's question.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <normplace/measure/first_step.hpp>
#include <normplace/measure/measure.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

ReferenceModel gelu_model() {
    ReferenceModel model;
    model.layers = 2;
    model.width = 32;
    model.heads = 2;
    model.feed_forward = 64;
    model.sequence = 6;
    model.batch = 2;
    model.vocabulary = 13;
    model.activation = gelu;
    return model;
}

ReferenceModel byte_model() {
    ReferenceModel model = gelu_model();
    model.vocabulary = 256;
    model.causal = true;
    return model;
}

/// Bytes that follow no pattern.
std::string patternless_text(std::size_t length) {
    RandomEngine random(7);
    std::string text;
    while (text.size() < length) text += static_cast<char>('a' + random() % 20);
    return text;
}

struct Silent {
    static constexpr auto name = "silent";
    static constexpr auto formula = x + 0.0 * f(norm(x));
    static constexpr bool final_norm = true;
};

double differences(const SteppedNetwork& network) { return 1.0 - network.hidden.token_correlation.value; }

/// The same to `tolerance`, NaN where NaN is. Rounding may depend on where in memory a tensor lies.
template <class Report>
void check_same(const Report& report, const Report& expected, double tolerance = 1e-9) {
    std::vector<double> values;
    for_each_entry(expected, [&](const std::string&, const auto& entry) {
        values.push_back(entry.value);
        values.push_back(entry.standard_error);
    });
    std::size_t i = 0;
    for_each_entry(report, [&](const std::string& name, const auto& entry) {
        INFO(name);
        for (const double value : {entry.value, entry.standard_error}) {
            const double wanted = values.at(i++);
            CHECK((std::isnan(value) ? std::isnan(wanted) : value == doctest::Approx(wanted).epsilon(tolerance)));
        }
    });
    CHECK(i == values.size());
}

}  // namespace

TEST_CASE("the response is the derivative along the update, as backward gives it") {
    // Of the change w of h per unit of learning rate, backward gives w.J, and w.(J u) is then w.w: a derivative that no
    // second network computes.
    const ReferenceModel model = gelu_model();
    Encoder<PreLN, double> encoder({.layers = model.layers,
                                    .width = model.width,
                                    .heads = model.heads,
                                    .feed_forward = model.feed_forward,
                                    .activation = model.activation});
    Linear<double> readout(model.width, model.vocabulary, false);
    RandomEngine random(0x9E3779B97F4A7C15ULL);
    encoder.initialize(random, model.initialization);
    readout.initialize(Initializer(random, Initialization::standard_deviation(1.0 / std::sqrt(32.0))), Role::readout);
    Encoder<PreLN, double>::Cache cache;
    Encoder<PreLN, double>::Gradients gradients;
    Linear<double>::Gradients readout_gradients;
    Activations<double> x, h, logits, dh, dx;
    Tokens targets;
    x.resize({model.batch, model.sequence, model.width});
    targets.resize({model.batch, model.sequence});
    const auto draw = [&] {
        detail::fill_gaussian(x.data(), x.size(), 1.0, random);
        for (int& target : targets.storage()) target = static_cast<int>(random() % model.vocabulary);
    };

    draw();
    encoder.forward(x, h, cache);
    readout.forward(h, logits);
    cross_entropy(logits, targets, logits);
    zero_gradients(encoder, gradients);
    zero_gradients(readout, readout_gradients);
    readout.backward(h, logits, dh, readout_gradients);
    encoder.backward(dh, dx, cache, gradients);
    const ParameterList<double> parameters = parameter_list(encoder, gradients);
    std::vector<double> update;
    for (const auto& parameter : parameters)
        for (const double gradient : parameter.gradient) update.push_back(gradient / (std::abs(gradient) + 1e-8));

    draw();
    Activations<double> ahead, behind;
    const auto move = [&](double eta) {
        std::size_t i = 0;
        for (const auto& parameter : parameters)
            for (double& value : parameter.value) value -= eta * update[i++];
    };
    constexpr double eta = 1e-6;
    move(eta);
    encoder.forward(x, ahead, cache);
    move(-2.0 * eta);
    encoder.forward(x, behind, cache);
    move(eta);
    encoder.forward(x, h, cache);
    for (std::size_t i = 0; i < dh.size(); ++i) dh.data()[i] = (ahead.data()[i] - behind.data()[i]) / (2.0 * eta);
    zero_gradients(encoder, gradients);
    encoder.backward(dh, dx, cache, gradients);
    double product = 0.0;
    std::size_t i = 0;
    for (const auto& parameter : parameters)
        for (const double gradient : parameter.gradient) product -= gradient * update[i++];

    const FirstStepReport report = measure_first_step<PreLN, double>(model, StepRule::adam(), {.seeds = 1});
    CHECK(report.response.value == doctest::Approx(std::sqrt(product / static_cast<double>(h.size()))).epsilon(1e-7));
    CHECK(std::isnan(report.response.standard_error));
}

TEST_CASE("a step of nothing leaves the network as it was, and a small one nearly") {
    const FirstStepReport report =
        measure_first_step<PostLN, double>(gelu_model(), StepRule::adam(), {.learning_rates = {0.0, 1e-9, 1e-2}});
    CHECK(report.placement == "post-ln");
    CHECK(report.rule.name == "adam");
    CHECK(report.seeds == 4);
    REQUIRE(report.stepped.size() == 3);
    CHECK(report.stepped[2].learning_rate == 1e-2);
    REQUIRE(report.initial.sublayers.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        const SteppedStream &before = report.initial.sublayers[i], &nothing = report.stepped[0].sublayers[i];
        CHECK(nothing.token_correlation.value == doctest::Approx(before.token_correlation.value).epsilon(1e-12));
        CHECK(nothing.second_moment.value == doctest::Approx(before.second_moment.value).epsilon(1e-12));
    }
    CHECK(differences(report.stepped[0]) == doctest::Approx(differences(report.initial)).epsilon(1e-12));
    CHECK(differences(report.stepped[1]) == doctest::Approx(differences(report.initial)).epsilon(1e-6));
    CHECK(std::abs(differences(report.stepped[2]) / differences(report.initial) - 1.0) > 0.01);
    // Post-LN's last hidden state is its last sublayer's stream.
    CHECK(report.stepped[2].hidden.token_correlation.value ==
          report.stepped[2].sublayers.back().token_correlation.value);
}

TEST_CASE_TEMPLATE("at eta_half, half of the differences between tokens are left", P, PreLN, PostLN) {
    // The bracket that was bisected is 1.002 wide, and its geometric middle is returned.
    const double half = measure_first_step<P, double>(gelu_model(), StepRule::adam(), {.seeds = 1}).eta_half.value;
    const FirstStepReport report = measure_first_step<P, double>(
        gelu_model(), StepRule::adam(), {.seeds = 1, .learning_rates = {half / 1.00101, half * 1.00101, half / 2}});
    CHECK(differences(report.stepped[0]) > 0.5 * differences(report.initial));
    CHECK(differences(report.stepped[1]) <= 0.5 * differences(report.initial));
    CHECK(differences(report.stepped[2]) > 0.5 * differences(report.initial));
    CHECK(report.eta_half.value == doctest::Approx(half).epsilon(1e-9));
}

TEST_CASE("means over seeds: geometric for eta_half, of squares for the response, plain for the streams") {
    // Seeds are the same in every call, so those of single seeds follow from reports over 1, 2 and 3 of them.
    std::vector<FirstStepReport> over;
    for (const std::size_t seeds : {std::size_t(1), std::size_t(2), std::size_t(3)})
        over.push_back(measure_first_step<PostLN, double>(gelu_model(), StepRule::adam(), {.seeds = seeds}));
    const auto check = [&](auto sum_of_first, double value, double error) {
        const double a = sum_of_first(over[0]), b = 2.0 * sum_of_first(over[1]) - a,
                     c = 3.0 * sum_of_first(over[2]) - a - b, mean = (a + b + c) / 3.0;
        const double variance = ((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2.0;
        CHECK(a != doctest::Approx(b));
        CHECK(value == doctest::Approx(mean).epsilon(1e-9));
        CHECK(error == doctest::Approx(std::sqrt(variance / 3.0)).epsilon(1e-6));
    };
    const FirstStepReport& last = over[2];
    check([](const FirstStepReport& report) { return std::log(report.eta_half.value); }, std::log(last.eta_half.value),
          last.eta_half.standard_error / last.eta_half.value);
    check([](const FirstStepReport& report) { return report.response.value * report.response.value; },
          last.response.value * last.response.value, 2.0 * last.response.value * last.response.standard_error);
    check([](const FirstStepReport& report) { return report.initial.hidden.token_correlation.value; },
          last.initial.hidden.token_correlation.value, last.initial.hidden.token_correlation.standard_error);
}

TEST_CASE("one seed that never gets there makes eta_half infinite") {
    std::vector<FirstStepReport> seeds(2);
    for (FirstStepReport& seed : seeds) seed.response.value = 1.0;
    seeds[0].eta_half.value = 1e-3;
    seeds[1].eta_half.value = std::numeric_limits<double>::infinity();
    FirstStepReport summary;
    detail::average_first_steps(seeds, summary);
    CHECK(std::isinf(summary.eta_half.value));
    CHECK(std::isnan(summary.eta_half.standard_error));
}

TEST_CASE("no update has no response, and no step halves anything") {
    ReferenceModel model = gelu_model();
    model.vocabulary = 1;  // one answer, so the loss is 0 whatever the parameters
    const FirstStepReport report = measure_first_step<PreLN>(model, StepRule::adam());
    CHECK(report.response.value == 0.0);
    CHECK(std::isinf(report.eta_half.value));
}

TEST_CASE("tokens without differences have none to lose, and absurd steps come to an end") {
    ReferenceModel model = gelu_model();
    model.sequence = 1;
    const FirstStepReport report =
        measure_first_step<PreLN>(model, StepRule::adam(), {.learning_rates = {1e30, 1e300}});
    CHECK(std::isnan(report.eta_half.value));
    CHECK(report.response.value > 0.0);
    // A norm's eps and its gain's step are lost in 1e30, so the second moment is no number that means anything.
    CHECK_FALSE(report.stepped[0].hidden.second_moment.value < 1e30);
    // Without a norm the stream overflows before its tokens are alike, or they become alike: no third case, no hang.
    const Moment half = measure_first_step<NoNorm>(gelu_model(), StepRule::sgd()).eta_half;
    CHECK(half.value > 0.0);
}

TEST_CASE("SGD's step is the gradient, Nesterov's 1 + mu of it, and a large eps makes Adam's the gradient over eps") {
    const ReferenceModel model = gelu_model();
    const auto measured = [&](const StepRule& rule) { return measure_first_step<PostLN, double>(model, rule); };
    const FirstStepReport sgd = measured(StepRule::sgd(0.9)), nesterov = measured(StepRule::sgd(0.5, true)),
                          slow = measured(StepRule::adam(1e7));
    CHECK(nesterov.response.value == doctest::Approx(1.5 * sgd.response.value).epsilon(1e-7));
    CHECK(nesterov.eta_half.value == doctest::Approx(sgd.eta_half.value / 1.5).epsilon(1e-7));
    CHECK(slow.response.value == doctest::Approx(1e-7 * sgd.response.value).epsilon(1e-7));
    CHECK(slow.eta_half.value == doctest::Approx(1e7 * sgd.eta_half.value).epsilon(1e-7));
    CHECK(measured(StepRule::adam()).response.value > 10.0 * sgd.response.value);
}

TEST_CASE("AdamW's decay shrinks every parameter beside the step") {
    // With Adam's part switched off by its eps, half a decay halves gains and weights: the final norm's gain, behind
    // which nothing comes, makes h half as large; without decay the same step does nothing.
    constexpr double epsilon = 1e12;
    const MeasureFirstStepOptions options{.learning_rates = {0.5}};
    const FirstStepReport decayed =
        measure_first_step<PreLN, double>(gelu_model(), StepRule::adam_w(1.0, epsilon), options);
    const FirstStepReport kept =
        measure_first_step<PreLN, double>(gelu_model(), StepRule::adam_w(0.0, epsilon), options);
    CHECK(decayed.stepped[0].hidden.second_moment.value ==
          doctest::Approx(0.25 * decayed.initial.hidden.second_moment.value).epsilon(1e-4));
    CHECK(kept.stepped[0].hidden.second_moment.value ==
          doctest::Approx(kept.initial.hidden.second_moment.value).epsilon(1e-9));
    check_same(measure_first_step<PreLN, double>(gelu_model(), StepRule::adam()),
               measure_first_step<PreLN, double>(gelu_model(), StepRule::adam_w(0.0)));
}

TEST_CASE("with a text, seed s steps on batch 2 s and is read on batch 2 s + 1") {
    const ReferenceModel model = byte_model();
    const std::size_t length = model.batch * model.sequence;
    const std::string text = patternless_text(4 * length + 1);
    const MeasureFirstStepOptions options{.seeds = 2, .learning_rates = {1e-3}, .text = text};
    const auto measured = [&](std::string other) {
        MeasureFirstStepOptions changed = options;
        changed.text = other;
        return measure_first_step<PostLN, double>(model, StepRule::adam(), changed);
    };
    const FirstStepReport report = measured(text);
    std::string first = text, next = text;
    first[2 * length + 3] = next[3 * length + 3] = 'z';  // of seed 1
    CHECK(measured(first).initial.hidden.token_correlation.value == report.initial.hidden.token_correlation.value);
    CHECK(measured(first).stepped[0].hidden.token_correlation.value !=
          report.stepped[0].hidden.token_correlation.value);
    CHECK(measured(next).initial.hidden.token_correlation.value != report.initial.hidden.token_correlation.value);

    // Twice the same batch: before the step it is what `measure` sees.
    const std::string twice = text.substr(0, length) + text.substr(0, length + 1);
    const FirstStepReport again =
        measure_first_step<PostLN, double>(model, StepRule::adam(), {.seeds = 1, .text = twice});
    const GradientReport gradients = measure<PostLN, double>(model, {.seeds = 1, .text = twice});
    for (std::size_t l = 0; l < model.layers; ++l) {
        const LayerReport& layer = gradients.layers[l];
        CHECK(again.initial.sublayers[2 * l].token_correlation.value ==
              doctest::Approx(layer.attention.stream.token_correlation.value).epsilon(1e-12));
        CHECK(again.initial.sublayers[2 * l + 1].second_moment.value ==
              doctest::Approx(layer.feed_forward.stream.second_moment.value).epsilon(1e-12));
    }
}

TEST_CASE("the tables step as well") {
    // Where the sublayers add nothing, the stream is the sum of the tables' rows. A step moves each entry of the two
    // rows by eta and a token's by 0 or 2 eta, which makes 2 eta^2 of its square, or 4 where the two rows agree.
    const ReferenceModel model = byte_model();
    const std::string text(2 * model.batch * model.sequence + 1, 'a');
    const FirstStepReport report = measure_first_step<Silent, double>(
        model, StepRule::adam(), {.seeds = 1, .learning_rates = {10.0}, .text = text});
    for (const SteppedStream& stream : report.stepped[0].sublayers) {
        CHECK(stream.second_moment.value > 150.0);
        CHECK(stream.second_moment.value < 450.0);
    }
}

TEST_CASE("seeds are the same on any number of threads, and whatever was measured before them on their thread") {
    const auto measured = [](std::size_t seeds, std::size_t threads) {
        return measure_first_step<PreLN, double>(gelu_model(), StepRule::adam_w(0.1),
                                                 {.seeds = seeds, .learning_rates = {1e-3}, .threads = threads});
    };
    const FirstStepReport one = measured(5, 1);
    check_same(measured(5, 1), one);
    check_same(measured(5, 2), one);
    check_same(measured(5, 5), one);
    CHECK(measured(6, 2).eta_half.value != one.eta_half.value);
}

TEST_CASE("float and double measure the same thing") {
    // Each scalar has draws of its own, so the two agree to their standard errors only.
    const FirstStepReport single = measure_first_step<PreLN, float>(gelu_model(), StepRule::adam(), {.seeds = 40}),
                          twice = measure_first_step<PreLN, double>(gelu_model(), StepRule::adam(), {.seeds = 40});
    for (const auto moment : {&FirstStepReport::response, &FirstStepReport::eta_half}) {
        const Moment &a = single.*moment, &b = twice.*moment;
        CHECK(std::abs(a.value - b.value) < 4.0 * std::hypot(a.standard_error, b.standard_error));
    }
}

TEST_CASE("RMSNorm is measured as well") {
    ReferenceModel model = gelu_model();
    const double layer_norm = measure_first_step<PreLN>(model, StepRule::adam()).response.value;
    model.norm = NormKind::rms_norm;
    CHECK(measure_first_step<PreLN>(model, StepRule::adam()).response.value != doctest::Approx(layer_norm));
}

TEST_CASE("progress counts every seed once, and its exception reaches the caller") {
    std::vector<std::size_t> seen;
    measure_first_step<PreLN>(gelu_model(), StepRule::adam(),
                              {.seeds = 3, .progress = [&](std::size_t done, std::size_t total) {
                                   CHECK(total == 3);
                                   seen.push_back(done);
                               }});
    CHECK(seen == std::vector<std::size_t>{1, 2, 3});
    CHECK_THROWS_WITH(
        measure_first_step<PreLN>(gelu_model(), StepRule::adam(),
                                  {.progress = [](std::size_t, std::size_t) { throw std::runtime_error("stop"); }}),
        "stop");
}

TEST_CASE("wrong arguments are refused with their values") {
    ReferenceModel model = gelu_model();
    const auto measure = [&](const MeasureFirstStepOptions& options) {
        return measure_first_step<PreLN>(model, StepRule::adam(), options);
    };
    CHECK_THROWS_WITH(measure({.seeds = 0}), "measure_first_step: seeds is 0, expected at least 1");
    CHECK_THROWS_WITH(measure({.learning_rates = {1e-3, -1.0}}),
                      "measure_first_step: learning rate is -1, expected a finite number of at least 0");
    CHECK_THROWS_WITH(measure({.text = "some text"}),
                      "measure_first_step: with a text the tokens are bytes, so the vocabulary is 256, not 13");
    model.vocabulary = 256;
    CHECK_THROWS_WITH(measure({.seeds = 3, .text = "too short"}),
                      "the text has 9 bytes; 6 batches of 2 sequences of 6 bytes need 73");
    model.heads = 3;
    CHECK_THROWS_WITH(measure({}), "ReferenceModel: width 32 is not divisible by 3 heads");
}

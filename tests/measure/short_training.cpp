// SPDX-License-Identifier: BSD-3-Clause
//
// Short trainings: the curve, the learning rates, the optimizer that a rule means, the judgement, and the errors.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <normplace/measure/first_step.hpp>
#include <normplace/measure/measure.hpp>
#include <normplace/measure/short_training.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

ReferenceModel training_model() {
    ReferenceModel model;
    model.layers = 2;
    model.width = 32;
    model.heads = 2;
    model.feed_forward = 64;
    model.sequence = 8;
    model.batch = 4;
    model.vocabulary = 256;
    model.causal = true;
    return model;
}

/// Each byte tells the next.
std::string circle(std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i % 12);
    return text;
}

std::vector<double> losses(const ShortTraining& training) {
    std::vector<double> all;
    for (const ShortTrainingStep& step : training.steps) all.push_back(step.loss);
    return all;
}

/// A run whose every step had this loss.
ShortTraining run_of(std::size_t steps, double loss) {
    ShortTraining training;
    training.unigram_entropy = 2.0;
    for (std::size_t t = 1; t <= steps; ++t) training.steps.push_back({t, 1e-3, loss, 0.5});
    return training;
}

}  // namespace

TEST_CASE("the unigram entropy is that of the bytes' frequencies") {
    CHECK(unigram_entropy("") == 0.0);
    CHECK(unigram_entropy("aaaa") == 0.0);
    CHECK(unigram_entropy("abba") == doctest::Approx(std::log(2.0)).epsilon(1e-14));
    CHECK(unigram_entropy("aaab") == doctest::Approx(2.0 * std::log(2.0) - 0.75 * std::log(3.0)).epsilon(1e-14));
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    CHECK(unigram_entropy(all) == doctest::Approx(std::log(256.0)).epsilon(1e-14));
}

TEST_CASE("the same seed gives the same curve, another one another") {
    const std::string text = circle(300);
    const auto curve = [&](std::size_t seed) {
        return losses(train_shortly<PreLN, double>(training_model(), StepRule::adam(),
                                                   {.learning_rate = 1e-3, .steps = 8, .seed = seed, .text = text}));
    };
    const std::vector<double> one = curve(0), again = curve(0), other = curve(1);
    REQUIRE(one.size() == 8);
    for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(again[i] == doctest::Approx(one[i]).epsilon(1e-9));  // rounding may depend on where a tensor lies
        CHECK(other[i] != one[i]);
    }
}

TEST_CASE("the learning rate rises on a line over the warm-up and stays") {
    const std::string text = circle(100);
    std::vector<double> rates;
    for (const ShortTrainingStep& step :
         train_shortly<PreLN>(training_model(), StepRule::adam(),
                              {.learning_rate = 1e-3, .warm_up_steps = 4, .steps = 6, .text = text})
             .steps) {
        CHECK(step.step == rates.size() + 1);
        rates.push_back(step.learning_rate);
    }
    REQUIRE(rates.size() == 6);
    for (std::size_t t = 1; t <= 6; ++t)
        CHECK(rates[t - 1] == doctest::Approx(1e-3 * std::min(1.0, static_cast<double>(t) / 4.0)).epsilon(1e-14));
}

TEST_CASE("the first step is the one that measure_first_step takes") {
    // S + 1 bytes have one place to read, so every sequence of the training is the same, and the next batch too.
    ReferenceModel model = training_model();
    model.batch = 1;
    const std::string place = "hamburge", text = place + place.substr(0, 1), twice = place + text;
    for (const StepRule& rule : {StepRule::adam(), StepRule::adam(1e-3), StepRule::adam(0.0), StepRule::adam_w(0.3),
                                 StepRule::sgd(), StepRule::sgd(0.5, true)}) {
        INFO(rule.name);
        const double eta = rule.sign ? 5e-3 : 0.5;
        const FirstStepReport expected =
            measure_first_step<PostLN, double>(model, rule, {.seeds = 1, .learning_rates = {eta}, .text = twice});
        const ShortTraining training =
            train_shortly<PostLN, double>(model, rule, {.learning_rate = eta, .steps = 2, .text = text});
        const double before = expected.initial.hidden.token_correlation.value,
                     after = expected.stepped[0].hidden.token_correlation.value;
        REQUIRE(training.steps.size() == 2);
        CHECK(std::abs(after - before) > 1e-3);
        CHECK(training.steps[0].token_correlation == doctest::Approx(before).epsilon(1e-11));
        CHECK(training.steps[1].token_correlation == doctest::Approx(after).epsilon(1e-6));
    }
}

TEST_CASE("all parameters are trained: a small step of SGD lowers the loss by eta times their squared gradients") {
    ReferenceModel model = training_model();
    model.batch = 1;
    const std::string text = "hamburgeh";
    double squares = 0.0;
    const GradientReport gradients = measure<PeriLN, double>(model, {.seeds = 1, .text = text});
    for_each_entry(gradients, [&](const std::string&, const auto& entry) {
        if constexpr (requires { entry.norm; })
            if (!std::isnan(entry.norm)) squares += entry.norm * entry.norm;
    });
    constexpr double eta = 1e-7;
    const ShortTraining training =
        train_shortly<PeriLN, double>(model, StepRule::sgd(), {.learning_rate = eta, .steps = 2, .text = text});
    CHECK(training.steps[0].loss == doctest::Approx(gradients.loss.value).epsilon(1e-12));
    CHECK((training.steps[0].loss - training.steps[1].loss) / eta == doctest::Approx(squares).epsilon(1e-5));
}

TEST_CASE("batches come from anywhere in the text, and only from there") {
    // Half of it is one byte and half another: a run that always read the same place would see one of the two.
    const std::string text = std::string(200, 'a') + std::string(200, 'b');
    std::vector<double> losses;
    for (const auto& step :
         train_shortly<PreLN>(training_model(), StepRule::adam(), {.learning_rate = 0.0, .steps = 12, .text = text})
             .steps)
        losses.push_back(step.loss);
    std::size_t different = 0;
    for (const double loss : losses) different += loss != losses[0];
    CHECK(different >= 3);
}

TEST_CASE("a text that is easy is learned, and not without steps of any size or with absurd ones") {
    const std::string text = circle(400);
    const auto trained = [&](double learning_rate) {
        return train_shortly<PreLN>(training_model(), StepRule::adam(),
                                    {.learning_rate = learning_rate, .steps = 60, .text = text});
    };
    const ShortTraining good = trained(1e-2), idle = trained(0.0);
    CHECK(good.unigram_entropy == doctest::Approx(std::log(12.0)).epsilon(1e-3));
    CHECK(good.learned());
    CHECK(good.final_loss() < 1.0);
    CHECK_FALSE(idle.learned());
    CHECK(idle.final_loss() > std::log(256.0));
    CHECK_FALSE(trained(1e4).learned());
}

TEST_CASE("learned is the mean of the last tenth, against the unigram entropy less 0.1") {
    CHECK(run_of(20, 1.89).learned());
    CHECK_FALSE(run_of(20, 1.91).learned());
    ShortTraining late = run_of(20, 5.0);
    late.steps[18].loss = 1.0;
    late.steps[19].loss = 2.0;
    CHECK(late.final_loss() == doctest::Approx(1.5));
    CHECK(run_of(3, 1.5).final_loss() == 1.5);  // a tenth of three is the last one
    CHECK(std::isnan(run_of(0, 1.5).final_loss()));
    CHECK_FALSE(run_of(0, 1.5).learned());
    late.divergence = "step 20: the loss is nan";
    CHECK(std::isinf(late.final_loss()));
    CHECK_FALSE(late.learned());
}

TEST_CASE("a run whose loss is no longer finite ends and says so") {
    const ShortTraining training = train_shortly<NoNorm>(training_model(), StepRule::sgd(),
                                                         {.learning_rate = 1e30, .steps = 50, .text = circle(100)});
    CHECK(training.steps.size() < 50);
    CHECK(training.divergence == "step " + std::to_string(training.steps.size()) + ": the loss is " +
                                     detail::number_text(training.steps.back().loss));
    CHECK_FALSE(training.learned());
}

TEST_CASE("progress sees every step and can end the run") {
    const std::string text = circle(100);
    std::vector<std::size_t> seen;
    const ShortTraining training = train_shortly<PreLN>(training_model(), StepRule::adam(),
                                                        {.text = text, .progress = [&](const ShortTrainingStep& step) {
                                                             seen.push_back(step.step);
                                                             return step.step < 3;
                                                         }});
    CHECK(seen == std::vector<std::size_t>{1, 2, 3});
    CHECK(training.steps.size() == 3);
    CHECK(training.divergence.empty());
}

TEST_CASE("RMSNorm is trained as well") {
    const std::string text = circle(100);
    ReferenceModel model = training_model();
    const auto loss = [&] {
        return train_shortly<PreLN>(model, StepRule::adam(), {.steps = 1, .text = text}).steps[0].loss;
    };
    const double layer_norm = loss();
    model.norm = NormKind::rms_norm;
    CHECK(loss() != layer_norm);
}

TEST_CASE("wrong arguments are refused with their values") {
    ReferenceModel model = training_model();
    const std::string text = circle(100);
    const auto train = [&](const ShortTrainingOptions& options) {
        return train_shortly<PreLN>(model, StepRule::adam(), options);
    };
    CHECK_THROWS_WITH(train({.steps = 0, .text = text}), "train_shortly: steps is 0, expected at least 1");
    CHECK_THROWS_WITH(train({.learning_rate = -1.0, .text = text}),
                      "train_shortly: learning rate is -1, expected a finite number of at least 0");
    CHECK_THROWS_WITH(train({.text = "hamburge"}),
                      "train_shortly: the text has 8 bytes; sequences of 8 bytes and the byte after them need 9");
    model.causal = false;
    CHECK_THROWS_WITH(train({.text = text}),
                      "train_shortly: the model is not causal, so that a token would see the byte to be predicted");
    model.causal = true;
    model.vocabulary = 100;
    CHECK_THROWS_WITH(train({.text = text}),
                      "train_shortly: with a text the tokens are bytes, so the vocabulary is 256, not 100");
    model.layers = 0;
    CHECK_THROWS_WITH(train({.text = text}), "ReferenceModel: layers is 0, expected at least 1");
}

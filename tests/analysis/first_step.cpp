// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/visit.hpp>
#include <string>
#include <vector>

using namespace normplace;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

ReferenceModel small_model() {
    ReferenceModel model;
    model.layers = 3;
    model.sequence = 8;
    model.batch = 2;
    model.width = 128;
    model.feed_forward = 512;
    return model;
}
ReferenceModel byte_model() {
    ReferenceModel model = small_model();
    model.layers = 1;
    model.sequence = 5;
    model.vocabulary = 256;
    model.causal = true;
    return model;
}
/// The batches of step s, and of the one after it.
StepBatches batches(const ReferenceModel& model, std::size_t step) {
    static const std::string text =
        "the first steps all go the way that every token shares, and so they push tokens "
        "together";
    return {byte_batch(text, model.batch, model.sequence, step),
            byte_batch(text, model.batch, model.sequence, step + 1)};
}

template <class Function>
std::string message(Function&& function) {
    try {
        function();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "nothing was thrown";
}

double differences(const SteppedNetwork& network) { return 1.0 - network.hidden.token_correlation.value; }

struct Silent {
    static constexpr auto name = "silent";
    static constexpr auto formula = x + 0.0 * f(norm(x));
    static constexpr bool final_norm = true;
};
struct HalvedPreLN {  // Pre-LN with all matrices and gains half as large
    static constexpr auto name = "halved-pre-ln";
    static constexpr auto formula = x + f(0.5 * norm(x));
    static constexpr bool final_norm = true;
    static double gain(Role role, const Depth&) { return role == Role::embedding ? 1.0 : 0.5; }
};

}  // namespace

TEST_CASE("predict_first_step: what the report holds, for every placement") {
    for (const bool causal : {false, true}) {
        ReferenceModel model = small_model();
        model.layers = 2;
        model.causal = causal;
        for (const AnyPlacement* placement : all_placements()) {
            if (!has_first_step(*placement)) continue;
            const FirstStepReport report =
                predict_first_step(*placement, model, StepRule::adam(), std::vector<double>{0.0, 1e-12, 1e-4});
            CAPTURE(report.placement);
            CHECK(report.placement == placement->name);
            CHECK(report.formula == to_string(*placement));
            CHECK(report.model.layers == 2);
            CHECK(report.rule.name == "adam");
            CHECK(report.seeds == 0);
            CHECK(report.response.value > 0.0);
            CHECK(report.initial.sublayers.size() == 4);
            CHECK(report.initial.learning_rate == 0.0);
            CHECK(report.stepped.size() == 3);
            CHECK(report.stepped[2].learning_rate == 1e-4);
            for (std::size_t b = 0; b < 4; ++b)
                for (const std::size_t i : {0u, 1u}) {  // no step, and hardly one
                    const SteppedStream &stream = report.stepped[i].sublayers[b],
                                        &initial = report.initial.sublayers[b];
                    CHECK(stream.second_moment.value == doctest::Approx(initial.second_moment.value).epsilon(1e-9));
                    CHECK(stream.token_correlation.value ==
                          doctest::Approx(initial.token_correlation.value).epsilon(1e-9));
                }
            CHECK(report.stepped[0].hidden.token_correlation.value == report.initial.hidden.token_correlation.value);
            // A step pushes tokens together.
            CHECK(differences(report.stepped[2]) < differences(report.initial));
        }
    }
}

TEST_CASE("eta_half takes away half of the differences between tokens") {
    for (const AnyPlacement* placement : all_placements()) {
        if (!has_first_step(*placement) || syntax::count_norms(placement->formula) == 0) continue;
        CAPTURE(placement->name);
        for (const StepRule& rule : {StepRule::adam(), StepRule::sgd(), StepRule::adam_w(0.1)}) {
            CAPTURE(rule.name);
            const FirstStep step = first_step(*placement, small_model(), rule);
            const double eta = step.eta_half();
            CHECK(differences(step.at(eta)) == doctest::Approx(0.5 * differences(step.at(0.0))).epsilon(1e-3));
            // And none before it does.
            for (const double part : {0.25, 0.5, 0.9})
                CHECK(differences(step.at(part * eta)) > 0.5 * differences(step.at(0.0)));
        }
    }
}

TEST_CASE("what the theory of the first step does not cover is refused with a sentence") {
    CHECK_THROWS_WITH(
        predict_first_step(any_placement<LayerScale>, small_model(), StepRule::adam()),
        "predict_first_step: layer-scale has several streams, learned factors, gains that do not start at "
        "1 or norms inside the sublayer, for which there is no theory of the first step");
    CHECK_FALSE(has_first_step(any_placement<SwinV2>));
    CHECK_FALSE(has_first_step(any_placement<ResiDual>));
    CHECK_FALSE(has_first_step(any_placement<QKNorm>));
    CHECK(has_first_step(any_placement<MixLN>));
    ReferenceModel model = small_model();
    model.norm = NormKind::dyt;
    CHECK_THROWS_WITH(predict_first_step<PreLN>(model, StepRule::adam()),
                      "predict_first_step: there is no theory of the first step for dyt");
}

TEST_CASE("the response is the limit of the change") {
    // Without norms and with uniform attention, in one layer, what the new hidden states have more of is the change
    // alone: E (h + w)^2 = E h^2 + E w^2, as w is independent of h.
    ReferenceModel model = ReferenceModel::paper(1, 128, 6);
    for (StepRule rule : {StepRule::adam(), StepRule::sgd()}) {
        CAPTURE(rule.name);
        rule.vectors = false;
        const FirstStep step = first_step<NoNorm>(model, rule);
        const double response = step.response(), eta = 1e-3 / response;
        const double more = step.at(eta).hidden.second_moment.value - step.at(0.0).hidden.second_moment.value;
        CHECK(std::sqrt(more) / eta == doctest::Approx(response).epsilon(1e-5));
    }
}

TEST_CASE("Adam: eta_half falls as 1 / D, and as the placement has it with depth") {
    // The amplitude of a matrix's step is eta c D C / sigma times gradients of that sigma.
    const auto eta_half = [](auto placement, std::size_t width, std::size_t layers) {
        ReferenceModel model = small_model();
        model.width = width;
        model.feed_forward = 4 * width;
        model.layers = layers;
        return first_step<decltype(placement)>(model, StepRule::adam()).eta_half();
    };
    for (const std::size_t width : {512u, 1024u, 2048u}) {
        const double ratio = static_cast<double>(width) / 256.0;
        CHECK(eta_half(PreLN{}, width, 3) * ratio == doctest::Approx(eta_half(PreLN{}, 256, 3)).epsilon(0.1));
        CHECK(eta_half(PostLN{}, width, 3) * ratio == doctest::Approx(eta_half(PostLN{}, 256, 3)).epsilon(0.1));
    }
    const double post = std::log2(eta_half(PostLN{}, 128, 6) / eta_half(PostLN{}, 128, 12)),
                 pre = std::log2(eta_half(PreLN{}, 128, 6) / eta_half(PreLN{}, 128, 12)),
                 deep = std::log2(eta_half(DeepNorm{}, 128, 6) / eta_half(DeepNorm{}, 128, 12));
    CHECK(post > pre);
    CHECK(pre > deep);
    CHECK(deep > 0.0);
}

TEST_CASE("Adam's eps as large as all gradients makes its step SGD's, over eps") {
    const FirstStep soft = first_step<PreLN>(small_model(), StepRule::adam(1e6)),
                    sgd = first_step<PreLN>(small_model(), StepRule::sgd());
    CHECK(soft.response() * 1e6 == doctest::Approx(sgd.response()).epsilon(1e-3));
    CHECK(soft.eta_half() / 1e6 == doctest::Approx(sgd.eta_half()).epsilon(1e-3));
    // Nesterov's first step is 1 + momentum times as long.
    const FirstStep nesterov = first_step<PreLN>(small_model(), StepRule::sgd(0.9, true));
    CHECK(nesterov.response() == doctest::Approx(1.9 * sgd.response()));
    CHECK(nesterov.eta_half() == doctest::Approx(sgd.eta_half() / 1.9).epsilon(1e-3));
}

TEST_CASE("AdamW: weight decay shrinks matrices and gains, decoupled from the gradient") {
    const ReferenceModel model = small_model();
    const FirstStepReport half = predict_first_step<PreLN>(model, StepRule::adam_w(0.5e12), std::vector<double>{1e-12}),
                          halved = predict_first_step<HalvedPreLN>(model, StepRule::adam());
    for (std::size_t b = 0; b < 6; ++b) {
        CAPTURE(b);
        const SteppedStream &decayed = half.stepped[0].sublayers[b], &expected = halved.initial.sublayers[b];
        CHECK(decayed.second_moment.value == doctest::Approx(expected.second_moment.value).epsilon(1e-6));
        CHECK(decayed.token_correlation.value == doctest::Approx(expected.token_correlation.value).epsilon(1e-6));
    }
    CHECK(predict_first_step<PreLN>(model, StepRule::adam_w(0.0)).eta_half.value ==
          predict_first_step<PreLN>(model, StepRule::adam()).eta_half.value);
}

TEST_CASE("a rule may leave biases and norms where they are") {
    StepRule rule = StepRule::adam();
    const double with = first_step<PostLN>(small_model(), rule).at(1e-2).hidden.second_moment.value;
    rule.vectors = false;
    const double without = first_step<PostLN>(small_model(), rule).at(1e-2).hidden.second_moment.value;
    CHECK(without == doctest::Approx(1.0).epsilon(1e-4));  // behind a norm of gain 1 and bias 0, but for its eps
    CHECK(with > 1.0 + 1e-3);
}

TEST_CASE("the report says where attention settles on single tokens") {
    ReferenceModel model = small_model();
    CHECK(predict_first_step<PreLN>(model, StepRule::adam()).warnings.empty());
    model.initialization = Initialization::standard_deviation(0.3);  // scores of variance (128 * 0.09)^2
    const std::vector<std::string> warnings = predict_first_step<PreLN>(model, StepRule::adam()).warnings;
    CHECK(warnings.size() == 1);
    CHECK(warnings.at(0).find("the attention scores' variance reaches ") == 0);
    CHECK(warnings.at(0).find("; so is the step, which is made of them") != std::string::npos);
}

TEST_CASE("predict_first_step: the mean over steps of texts") {
    const ReferenceModel model = byte_model();
    const StepRule rule = StepRule::adam();
    const std::vector<double> rates{3e-4};
    const FirstStepReport first = predict_first_step<PostLN>(model, rule, {batches(model, 0)}, rates),
                          second = predict_first_step<PostLN>(model, rule, {batches(model, 1)}, rates),
                          both = predict_first_step<PostLN>(model, rule, {batches(model, 0), batches(model, 1)}, rates);
    const auto mean = [](double a, double b) { return doctest::Approx(0.5 * (a + b)).epsilon(1e-12); };
    CHECK(first.eta_half.value != second.eta_half.value);
    CHECK(first.eta_half.value == doctest::Approx(first_step<PostLN>(model, rule, batches(model, 0)).eta_half()));
    CHECK(both.eta_half.value == doctest::Approx(std::sqrt(first.eta_half.value * second.eta_half.value)));
    CHECK(both.response.value * both.response.value ==
          mean(first.response.value * first.response.value, second.response.value * second.response.value));
    CHECK(both.stepped[0].hidden.token_correlation.value ==
          mean(first.stepped[0].hidden.token_correlation.value, second.stepped[0].hidden.token_correlation.value));
    CHECK(both.initial.hidden.token_correlation.value ==
          mean(first.initial.hidden.token_correlation.value, second.initial.hidden.token_correlation.value));
    for (std::size_t b = 0; b < 2; ++b)
        CHECK(both.stepped[0].sublayers[b].token_correlation.value ==
              mean(first.stepped[0].sublayers[b].token_correlation.value,
                   second.stepped[0].sublayers[b].token_correlation.value));
    CHECK(both.stepped[0].learning_rate == 3e-4);
    CHECK(both.initial.sublayers.size() == 2);
    // Only the next batch's first sequence is looked at, and all of the old batch steps.
    StepBatches other = batches(model, 0);
    other.next.tokens.back() = 'Q';
    CHECK(predict_first_step<PostLN>(model, rule, {other}).eta_half.value == first.eta_half.value);
    other.batch.tokens.back() = 'Q';
    CHECK(predict_first_step<PostLN>(model, rule, {other}).eta_half.value != first.eta_half.value);
}

TEST_CASE("what the first step refuses") {
    const ReferenceModel model = byte_model();
    const StepRule rule = StepRule::adam();
    const auto with = [&](double eta) {
        return message([&] { predict_first_step<PreLN>(model, rule, std::vector<double>{1e-3, eta}); });
    };
    CHECK(with(-1e-3) == "predict_first_step: a learning rate is -0.001000, expected a finite number of at least 0");
    CHECK(with(not_a_number) == "predict_first_step: a learning rate is nan, expected a finite number of at least 0");
    CHECK(with(infinity) == "predict_first_step: a learning rate is inf, expected a finite number of at least 0");
    CHECK(message([&] { predict_first_step<PreLN>(model, rule, {batches(model, 0)}, {-1.0}); }) ==
          "predict_first_step: a learning rate is -1.000000, expected a finite number of at least 0");
    CHECK(message([&] { predict_first_step<PreLN>(model, rule, std::vector<StepBatches>{}); }) ==
          "predict_first_step: there are no batches, expected at least 1");
    StepBatches longer = batches(model, 0);
    ReferenceModel other = model;
    other.sequence = 4;
    CHECK(message([&] { predict_first_step<PreLN>(other, rule, {longer}); }) ==
          "predict: a batch of 2 sequences of 5 tokens does not fit the model's 2 of 4");
    longer.next.batch = 1;
    CHECK(message([&] { predict_first_step<PreLN>(model, rule, {longer}); }) ==
          "predict: a batch of 1 sequences of 5 tokens does not fit the model's 2 of 5");
    StepBatches unknown = batches(model, 0);
    unknown.next.tokens[3] = 256;
    CHECK(message([&] { first_step<PreLN>(model, rule, unknown); }) ==
          "predict: token 256 is not one of the vocabulary's 0 to 255");
    other.layers = 0;
    CHECK(message([&] { first_step<PreLN>(other, rule); }) == "ReferenceModel: layers is 0, expected at least 1");
    CHECK(message([&] { predict_first_step<PreLN>(other, rule); }) ==
          "ReferenceModel: layers is 0, expected at least 1");
}

TEST_CASE("where no step takes half of the differences away, no learning rate is named") {
    const FirstStep silent = first_step<Silent>(small_model(), StepRule::adam());
    CHECK(silent.response() == 0.0);
    CHECK(!(silent.eta_half() < infinity));
    CHECK(differences(silent.at(1.0)) == doctest::Approx(1.0));
    CHECK(!(predict_first_step<Silent>(small_model(), StepRule::sgd()).eta_half.value < infinity));
}

TEST_CASE("the smallest models, and one that overflows") {
    for (const bool causal : {false, true}) {
        ReferenceModel model = small_model();
        model.causal = causal;
        model.sequence = 1;  // no pairs
        const FirstStepReport one = predict_first_step<PostLN>(model, StepRule::adam(), std::vector<double>{1e-3});
        CHECK(!(one.eta_half.value < infinity));
        CHECK(one.response.value > 0.0);
        CHECK(one.stepped[0].hidden.second_moment.value == doctest::Approx(1.0).epsilon(1e-2));
        model.sequence = 2;
        model.batch = model.layers = 1;
        const FirstStepReport two = predict_first_step<PreLN>(model, StepRule::adam());
        CHECK(two.eta_half.value > 0.0);
        CHECK(two.eta_half.value < infinity);
    }
    // Gradients of 200 layers without a norm are not numbers any more, and neither is what becomes of a step.
    ReferenceModel model = small_model();
    model.layers = 200;
    for (const StepRule& rule : {StepRule::adam(), StepRule::sgd()}) {
        const double eta = first_step<NoNorm>(model, rule).eta_half();
        CHECK((std::isnan(eta) || eta == infinity));
    }
}

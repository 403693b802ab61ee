// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis.hpp>
#include <normplace/analysis/encoder_decoder.hpp>
#include <string>

using namespace normplace;

namespace {

// Peri-LN whose feed-forward matrices start three times as large.
struct WidePeriLN : PeriLN {
    static constexpr auto name = "wide-peri-ln";
    static double gain(Role role, const Depth&) { return role == Role::linear1 || role == Role::linear2 ? 3.0 : 1.0; }
};
struct UserGELU {
    static constexpr auto name = "user-gelu";
    template <class T>
    static T value(T u) {
        return GELU::value(u);
    }
    template <class T>
    static T derivative(T u) {
        return GELU::derivative(u);
    }
};

template <class Function>
std::string message(Function&& function) {
    try {
        function();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TokenBatch small_batch(const ReferenceModel& model) {
    TokenBatch batch{model.batch, model.sequence, {}, {}};
    for (std::size_t i = 0; i < model.batch * model.sequence; ++i) {
        batch.tokens.push_back(static_cast<int>(i * i % 7));
        batch.targets.push_back(static_cast<int>((i + 1) * (i + 1) % 7));
    }
    return batch;
}

// The slope of ln y against ln L, least squares.
double slope(const std::vector<double>& depths, const std::vector<double>& values) {
    double n = 0.0, sx = 0.0, sy = 0.0, sxx = 0.0, sxy = 0.0;
    for (std::size_t i = 0; i < depths.size(); ++i) {
        const double a = std::log(depths[i]), b = std::log(values[i]);
        n += 1.0, sx += a, sy += b, sxx += a * a, sxy += a * b;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

// Every quantity of two reports, except those whose name contains `except`, agrees.
void check_same(GradientReport first, GradientReport second, double tolerance, const std::string& except = "nothing") {
    std::vector<double> values;
    for_each_quantity(second, [&](const std::string&, double& value, double&) { values.push_back(value); });
    std::size_t at = 0;
    for_each_quantity(first, [&](const std::string& name, double& value, double&) {
        const double other = values[at++];
        if (name.find(except) != std::string::npos) return;
        CAPTURE(name);
        if (std::isnan(value)) CHECK(std::isnan(other));
        else CHECK(value == doctest::Approx(other).epsilon(tolerance));
    });
}

}  // namespace

TEST_CASE("the report is complete and positive for every placement of the catalogue") {
    ReferenceModel model;
    model.layers = 2;
    model.initialization = Initialization::gpt2();
    for (const bool causal : {false, true}) {
        model.causal = causal;
        for (const AnyPlacement* placement : all_placements()) {
            GradientReport report = predict(*placement, model);
            CAPTURE(report.placement);
            CHECK(report.formula == to_string(*placement));
            CHECK(report.layers.size() == 2);
            CHECK(report.warnings.empty());
            // Where a branch or a stream is silent at the start, so are the gradients behind it.
            const bool silent = placement == &any_placement<SwinV2> || placement == &any_placement<SkipInit> ||
                                placement == &any_placement<ReZero>;
            for_each_quantity(report, [&](const std::string& name, double& value, double&) {
                CAPTURE(name);
                const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
                const SublayerNorms inside = placement->inside(Depth{1, 2, SublayerKind::attention});
                // On a stream that goes on, a number's gradient has no theory; nor has a bias before a key's norm.
                const bool absent = has("embedding") || (!placement->final_norm() && has("final_norm")) ||
                                    has(".mix") || (inside.key && has("key.bias"));
                // The streams are alike at the start, and norms take away what scales both. UnitNorm learns nothing.
                const bool zero = has("key.bias") || has("key_norm.bias") || name == "input.token_correlation" ||
                                  has(".in0") || has(".in1") ||
                                  (placement->norm_kind == NormKind::unit_norm && has("norm"));
                if (absent) CHECK(std::isnan(value));
                else if (zero) CHECK(value == doctest::Approx(0.0));
                else if (silent) CHECK(value >= 0.0);
                else CHECK(value > 0.0);
            });
        }
    }
}

TEST_CASE("the kernel engine gives the scalars' answer for exchangeable tokens") {
    ReferenceModel model;
    model.layers = 3;
    model.sequence = 8;
    model.batch = 2;
    detail::PredictionInput input{TokenLayout::by_position(model.batch, model.sequence), {}, {}, nullptr};
    input.stream = TokenKernel(input.layout.entries());
    input.same_target = TokenKernel(input.layout.entries(), 1.0 / static_cast<double>(model.vocabulary));
    for (std::size_t i = 0; i < input.layout.classes(); ++i)
        input.stream[input.layout.diagonal(i)] = input.same_target[input.layout.diagonal(i)] = 1.0;
    detail::Estimator estimator(any_placement<PreLN>, model);
    estimator.add(input);
    check_same(predict<PreLN>(model), estimator.finish(), 1e-9);
}

TEST_CASE("Peri-LN: gradients do not depend on the scale of a sublayer's weights, other than those weights' own") {
    ReferenceModel model;
    model.layers = 4;
    model.epsilon = 1e-12;  // a scale would show against it
    const GradientReport once = predict<PeriLN>(model), tripled = predict<WidePeriLN>(model);
    check_same(once, tripled, 1e-8, "linear");
    for (std::size_t l = 0; l < 4; ++l) {
        CHECK(once.layers[l].w1.norm == doctest::Approx(3.0 * tripled.layers[l].w1.norm).epsilon(1e-8));
        CHECK(once.layers[l].w2.norm == doctest::Approx(3.0 * tripled.layers[l].w2.norm).epsilon(1e-8));
    }
}

TEST_CASE("Post-LN at Xavier and ReLU is flat over depth, where the paper's extension falls") {
    ReferenceModel model;
    for (const bool causal : {false, true}) {
        model.causal = causal;
        const GradientReport report = predict<PostLN>(model);
        const double first = report.layers.front().w2.norm, last = report.layers.back().w2.norm;
        CHECK(first / last > 0.8);
        CHECK(first / last < 1.25);
        CHECK(paper::extension_post_ln(1, model.layers) < 0.12);
    }
}

TEST_CASE("the paper's model: last layer against depth, and Lemma 2") {
    const std::vector<double> depths{2, 4, 6, 12, 24};
    std::vector<double> post, pre;
    for (const double depth : depths) {
        const ReferenceModel model = ReferenceModel::paper(static_cast<std::size_t>(depth), 256, 16);
        post.push_back(predict<PostLN>(model).layers.back().w2.norm);
        const GradientReport report = predict<PreLN>(model);
        pre.push_back(report.layers.back().w2.norm);
        CHECK(report.layers[0].wq.norm == 0.0);
        CHECK(report.layers[0].wk.norm == 0.0);
        CHECK(std::isnan(report.layers[0].wo.norm));
        for (std::size_t l = 1; l <= model.layers; ++l) {
            const paper::Bounds bounds = paper::lemma2_pre_ln(256, l);
            const double square = 256.0 * report.layers[l - 1].feed_forward.stream.second_moment.value;
            CHECK(square >= bounds.lower);
            CHECK(square <= bounds.upper);
        }
    }
    CHECK(std::fabs(slope(depths, post)) < 0.03);       // O(d sqrt(ln d)): no L
    CHECK(std::fabs(slope(depths, pre) + 0.5) < 0.05);  // O(d sqrt(ln d / L))
}

TEST_CASE("Lemma 2's growth within its bounds depends on the number of tokens") {
    const auto growth = [](std::size_t sequence) {
        return predict<PreLN>(ReferenceModel::paper(6, 256, sequence))
            .layers[5]
            .feed_forward.stream.second_moment.value;
    };
    // One token attends to itself: each layer adds 1 and 1/2, the upper bound (within epsilon).
    CHECK(growth(1) == doctest::Approx(10.0).epsilon(1e-4));
    CHECK(growth(16) < growth(4));
    CHECK(growth(4) < growth(1));
}

TEST_CASE("twenty thousand layers follow the laws of fewer") {
    ReferenceModel model;
    model.layers = 5000;
    const GradientReport fewer = predict<PreLN>(model);
    model.layers = 20000;
    const GradientReport more = predict<PreLN>(model), post = predict<PostLN>(model);
    // A layer does not know how many follow.
    CHECK(more.layers[4999].feed_forward.stream.second_moment.value ==
          doctest::Approx(fewer.layers[4999].feed_forward.stream.second_moment.value).epsilon(1e-12));
    // The stream grows as L and the last gradient falls as its root, but for terms of order ln L / L.
    CHECK(more.layers.back().feed_forward.stream.second_moment.value ==
          doctest::Approx(4.0 * fewer.layers.back().feed_forward.stream.second_moment.value).epsilon(1e-2));
    CHECK(more.layers.back().w2.norm == doctest::Approx(0.5 * fewer.layers.back().w2.norm).epsilon(1e-2));
    CHECK(more.warnings == std::vector<std::string>{explain(Limit::aligned_tokens)});
    // Post-LN stays flat. Its tokens are equal long before the end, which leaves nothing to W_q and W_k, and not NaN.
    for (const LayerReport& layer : post.layers)
        if (!(std::fabs(layer.w2.norm / post.layers.back().w2.norm - 1.0) < 0.15 && layer.wk.norm < 1.0)) {
            FAIL_CHECK("layer " << &layer - post.layers.data() + 1 << ": W_2 " << layer.w2.norm << ", W_k "
                                << layer.wk.norm);
            break;
        }
    CHECK(post.layers.back().wq.norm < 1e-6);
}

TEST_CASE("an activation of the user's own that computes GELU is predicted as GELU") {
    ReferenceModel model;
    model.layers = 2;
    model.activation = gelu;
    const GradientReport closed = predict<PreLN>(model);
    model.activation = activation<UserGELU>();
    check_same(closed, predict<PreLN>(model), 1e-5);
}

TEST_CASE("given tokens: batches are averaged, and text of distinct tokens is no special case") {
    ReferenceModel model;
    model.layers = 2;
    model.sequence = 6;
    model.batch = 2;
    model.vocabulary = 16;
    const TokenBatch batch = small_batch(model);
    const GradientReport one = predict<PostLN>(model, {batch}), two = predict<PostLN>(model, {batch, batch});
    check_same(one, two, 1e-12);
    CHECK(one.token_embedding.norm > 0.0);
    CHECK(one.position_embedding.norm > 0.0);
    CHECK(one.input.second_moment.value == doctest::Approx(1.0));
    // Every gradient reaches one row of each table, so the tables' squared norms are at least those of independent
    // tokens when gradients of equal tokens do not oppose each other: N D E(dLoss/dx)^2.
    CHECK(std::pow(one.token_embedding.norm, 2) > 0.9 * 12.0 * 256.0 * one.input.gradient_second_moment.value);

    TokenBatch other = batch;
    for (int& token : other.tokens) token = 3;
    const GradientReport same = predict<PostLN>(model, {other}), both = predict<PostLN>(model, {batch, other});
    CHECK(std::pow(both.readout.norm, 2) ==
          doctest::Approx(0.5 * (std::pow(one.readout.norm, 2) + std::pow(same.readout.norm, 2))));
    CHECK(both.loss.value == doctest::Approx(0.5 * (one.loss.value + same.loss.value)));
}

TEST_CASE("what the theory does not cover is a warning and a NaN, not a number") {
    ReferenceModel model;
    model.layers = 6;
    const GradientReport grows = predict<ResPostNorm>(model);  // f reads the growing stream itself
    REQUIRE(grows.warnings.size() == 1);
    CHECK(grows.warnings[0].find("above 2 ln n = 6.93 (n = 32)") != std::string::npos);
    CHECK(std::isfinite(grows.layers.front().wq.norm));
    CHECK(std::isnan(grows.layers.back().wq.norm));
    CHECK(std::isnan(grows.layers.back().wk.norm));
    CHECK(std::isfinite(grows.layers.back().wv.norm));

    model.layers = 4000;
    const GradientReport overflows = predict<NoNorm>(model);
    REQUIRE(!overflows.warnings.empty());
    CHECK(overflows.warnings[0].find("range of double precision") != std::string::npos);
    CHECK(overflows.warnings[0].find("4000 layers") != std::string::npos);
}

TEST_CASE("matrices of zeros have no unit vectors, and give nothing") {
    ReferenceModel model{.layers = 2, .width = 64, .heads = 4, .feed_forward = 64, .sequence = 8, .batch = 2};
    CHECK(predict<NGPT>(model).layers[0].wk.norm > 0.0);
    model.initialization = Initialization::paper();
    const GradientReport report = predict<NGPT>(model);
    CHECK(report.layers[0].wq.norm == 0.0);  // for W_k is 0 as well
    CHECK(report.layers[0].wk.norm == 0.0);
    CHECK(report.layers[0].wv.norm > 0.0);
}

TEST_CASE("sizes of one are defined") {
    ReferenceModel model;
    model.layers = model.width = model.heads = model.feed_forward = model.sequence = model.batch = model.vocabulary = 1;
    for (const bool causal : {false, true}) {
        model.causal = causal;
        GradientReport report = predict<PreLN>(model);
        CHECK(report.layers[0].wq.norm == 0.0);
        CHECK(report.loss.value == doctest::Approx(0.0).scale(1.0).epsilon(1e-5));
        CHECK(report.readout.norm == doctest::Approx(0.0).scale(1.0).epsilon(1e-5));
    }
}

TEST_CASE("arguments are refused with their values") {
    ReferenceModel model;
    model.sequence = 6;
    model.batch = 2;
    model.vocabulary = 16;
    const TokenBatch batch = small_batch(model);
    CHECK(message([&] { predict<PreLN>(model, {}); }) == "predict: there are no batches, expected at least 1");
    model.batch = 3;
    CHECK(message([&] { predict<PreLN>(model, {batch}); }) ==
          "predict: a batch of 2 sequences of 6 tokens does not fit the model's 3 of 6");
    model.batch = 2;
    model.vocabulary = 4;
    CHECK(message([&] { predict<PreLN>(model, {batch}); }) == "predict: token 4 is not one of the vocabulary's 0 to 3");
    model.vocabulary = 16;
    TokenBatch ragged = batch;
    ragged.targets.pop_back();
    CHECK(message([&] { predict<PreLN>(model, {ragged}); }) ==
          "predict: a batch has 12 tokens and 11 targets, expected 12 of each");
    model.norm = NormKind::unit_norm;
    CHECK(message([&] { predict<QKNorm>(model); }) ==
          "predict: qk-norm has norms inside f: query, key, for which there is no theory when the norms are unit-norm");
    struct Scaled : QKNorm {
        static SublayerNorms inside(const Depth&) { return {.query_key_scale = true}; }
    };
    model.norm = NormKind::rms_norm;
    const std::string refusal =
        "predict: qk-norm has a factor for each entry of query and key, for which there is no theory when the norms "
        "are rms-norm";
    CHECK(message([&] { predict<Scaled>(model); }) == refusal);
    struct ScaledAcross : QKNorm {  // where an encoder has nothing
        static SublayerNorms inside(const Depth& depth) {
            return {.query_key_scale = depth.sublayer == SublayerKind::cross_attention};
        }
    };
    CHECK_NOTHROW(predict<ScaledAcross>(model));
    CHECK(message([&] { predict_encoder_decoder<PreLN, ScaledAcross>({.norm = model.norm}); }) == refusal);
    model.heads = 7;
    CHECK(message([&] { predict<PreLN>(model); }).find("not divisible by 7 heads") != std::string::npos);
}

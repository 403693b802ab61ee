// SPDX-License-Identifier: BSD-3-Clause
//
// What judges a number and how reports tell of it. Whether the judgement is right is measured, in
// tests/measure/validity.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/analysis/validity.hpp>
#include <normplace/placement/catalogue.hpp>
#include <string>
#include <vector>

using namespace normplace;
using detail::GradientPath;
using detail::judge;
using detail::Judgement;

namespace {

void check(const Judgement& judgement, Validity validity, Limit limit) {
    CHECK(judgement.validity == validity);
    CHECK(judgement.limit == limit);
}

/// Every gradient norm that the model has, and its name.
template <class Report, class Function>
void for_each_gradient(const Report& report, Function&& function) {
    for_each_entry(report, [&](const std::string& name, const auto& entry) {
        if constexpr (requires { entry.validity; }) {
            CAPTURE(name);
            function(name, entry);
        }
    });
}

}  // namespace

TEST_CASE("judge: bounds belong to the better side, and what is no number of its kind fails") {
    check(judge(0.5, 0.5, 1.0, Limit::narrow), Validity::holds, Limit::none);
    check(judge(0.51, 0.5, 1.0, Limit::narrow), Validity::less_certain, Limit::narrow);
    check(judge(1.0, 0.5, 1.0, Limit::narrow), Validity::less_certain, Limit::narrow);
    check(judge(1.01, 0.5, 1.0, Limit::narrow), Validity::fails, Limit::narrow);
    for (const double value : {-0.1, not_available, std::numeric_limits<double>::infinity()})
        check(judge(value, 0.5, 1.0, Limit::narrow), Validity::fails, Limit::narrow);
    CHECK(detail::is_narrow(63));
    CHECK_FALSE(detail::is_narrow(64));
    check(detail::judge_alignment(0.25, 128.0), Validity::holds, Limit::none);
    check(detail::judge_alignment(0.24, 128.0), Validity::less_certain, Limit::aligned_tokens);
    check(detail::judge_gain(64.0, 1.0, 128.0), Validity::holds, Limit::none);
    check(detail::judge_gain(80.0, 1.0, 128.0), Validity::less_certain, Limit::many_tokens);
    check(detail::judge_gain(80.0, 0.8, 128.0), Validity::holds, Limit::none);
    check(detail::judge_gain(170.0, 1.0, 128.0), Validity::fails, Limit::many_tokens);
}

TEST_CASE("each degree has a name") {
    CHECK(std::string(name(Validity::holds)) == "holds");
    CHECK(std::string(name(Validity::less_certain)) == "less_certain");
    CHECK(std::string(name(Validity::fails)) == "fails");
}

TEST_CASE("Judgement: the worse of two, and of equals the first") {
    Judgement judgement;
    judgement.worsen({Validity::less_certain, Limit::narrow});
    judgement.worsen({Validity::less_certain, Limit::many_tokens});
    judgement.worsen({});
    check(judgement, Validity::less_certain, Limit::narrow);
    judgement.worsen({Validity::fails, Limit::no_theory});
    check(judgement, Validity::fails, Limit::no_theory);
}

TEST_CASE("GradientPath: logarithms add up, and a norm of the sum and a causal mask bear fewer") {
    const auto passes = [](bool norm_of_sum, bool causal) {  // until it fails
        GradientPath path;
        int count = 0;
        for (; path.judgement().validity != Validity::fails; ++count)
            path.pass_attention(std::exp(0.7), norm_of_sum, causal);
        CHECK(path.judgement().limit == Limit::below_large_scores);
        return count;
    };
    CHECK(passes(false, false) == 23);  // 16 / 0.7 = 22.9
    CHECK(passes(false, true) == 22);
    CHECK(passes(true, false) == 8);
    CHECK(passes(true, true) == 3);
    GradientPath path;
    path.pass_attention(1.0, true, true);
    check(path.judgement(), Validity::holds, Limit::none);
    path.pass_attention(1.01, true, true);
    check(path.judgement(), Validity::less_certain, Limit::below_large_scores);
}

TEST_CASE("GradientPath: the loss, for the readout and for what is below") {
    const auto pass = [](double share, double excess, Validity readout, Validity below) {
        GradientPath path;
        CHECK(path.pass_loss(share, excess).validity == readout);
        CHECK(path.judgement().validity == below);
    };
    pass(0.01, 1.0, Validity::holds, Validity::holds);
    pass(0.02, 1.0, Validity::holds, Validity::less_certain);
    pass(0.06, 1.0, Validity::less_certain, Validity::fails);
    pass(0.6, 1.0, Validity::fails, Validity::fails);
    pass(0.0, 2.0, Validity::less_certain, Validity::less_certain);
    pass(0.0, 5.0, Validity::fails, Validity::fails);
    pass(not_available, 0.0, Validity::fails, Validity::fails);
}

TEST_CASE("explain: a sentence of its own for each limit, without full stop") {
    std::vector<std::string> sentences;
    for (int l = 0; l <= static_cast<int>(Limit::no_theory); ++l)
        sentences.emplace_back(explain(static_cast<Limit>(l)));
    for (std::size_t i = 0; i < sentences.size(); ++i) {
        CHECK(sentences[i].size() > 20);
        CHECK(sentences[i].back() != '.');
        for (std::size_t j = 0; j < i; ++j) CHECK(sentences[i] != sentences[j]);
    }
}

TEST_CASE("a report: absent parameters hold, those without theory do not, and no number fails") {
    ReferenceModel model;
    model.layers = 2;
    model.output_projection = false;
    model.norm = NormKind::scale_norm;
    const GradientReport report = predict<QKNorm>(model);
    for_each_gradient(report, [&](const std::string& name, const GradientNorm& gradient) {
        const bool no_theory =
            name.ends_with("key.bias") || (name.ends_with(".gain") && name.find("_norm") == name.npos);
        if (name.find("attention.out") != name.npos || name.find("embedding") != name.npos) {
            CHECK(std::isnan(gradient.norm));
            CHECK(gradient.validity == Validity::holds);
        } else if (no_theory) {
            CHECK(gradient.limit == Limit::no_theory);
        }
        CHECK((gradient.validity == Validity::fails) == (gradient.limit == Limit::no_theory));
        CHECK((gradient.validity != Validity::fails || std::isnan(gradient.norm)));
    });
    CHECK(report.layers[0].bk.validity == Validity::fails);
    CHECK(report.warnings.empty());
}

TEST_CASE("overflow and width judge every number, and what is exactly 0 holds") {
    ReferenceModel model;
    model.layers = 4000;
    std::size_t count = 0;
    for_each_gradient(predict<NoNorm>(model), [&](const std::string& name, const GradientNorm& gradient) {
        if (name.find("embedding") != name.npos || name.starts_with("final_norm") || name.ends_with("key.bias")) return;
        CHECK(std::isnan(gradient.norm));
        CHECK(gradient.validity == Validity::fails);
        CHECK(gradient.limit == Limit::overflow);
        ++count;
    });
    CHECK(count == 4000 * 11 + 1);

    EncoderDecoderModel narrow;
    narrow.encoder_layers = narrow.decoder_layers = 2;
    narrow.width = 32;
    const EncoderDecoderReport report = predict_encoder_decoder<PostLN, PreLN>(narrow);
    for_each_gradient(report, [&](const std::string& name, const GradientNorm& gradient) {
        const bool there = gradient.norm > 0.0;
        CHECK(gradient.validity == (there ? Validity::less_certain : Validity::holds));
        CHECK(gradient.limit == (there ? Limit::narrow : Limit::none));
        if (name.ends_with("key.bias")) CHECK(gradient.norm == 0.0);
    });
    CHECK(report.warnings == std::vector<std::string>{explain(Limit::narrow)});
}

TEST_CASE("what is exactly 0 holds below every limit") {
    const GradientReport aligned = predict<PostLN>(ReferenceModel::paper(12, 64, 16));
    CHECK(aligned.layers[11].wq.norm == 0.0);
    CHECK(aligned.layers[11].wq.validity == Validity::holds);
    CHECK(aligned.warnings.empty());
    ReferenceModel model;
    model.layers = 24;
    const GradientReport hot = predict<ResPostNorm>(model);
    CHECK(hot.layers[0].wv.validity == Validity::fails);
    CHECK(hot.layers[0].bk.validity == Validity::holds);
    CHECK(hot.layers[0].bk.norm == 0.0);
}

TEST_CASE("each of several batches is judged by itself") {
    ReferenceModel model;
    model.layers = 6;
    model.sequence = 4;
    model.batch = 1;
    const TokenBatch batch{.batch = 1, .sequence = 4, .tokens = {0, 1, 2, 3}, .targets = {1, 2, 3, 0}};
    const GradientReport one = predict<ResPostNorm>(model, {batch}),
                         four = predict<ResPostNorm>(model, {batch, batch, batch, batch});
    for (std::size_t l = 0; l < model.layers; ++l) {
        CHECK(one.layers[l].w1.validity == four.layers[l].w1.validity);
        CHECK(one.layers[l].wv.validity == four.layers[l].wv.validity);
    }
    CHECK(one.layers[2].wv.validity == Validity::less_certain);
    CHECK(four.layers[5].w1.validity == Validity::holds);
}

TEST_CASE("an encoder's gradients have come through the decoder's attention") {
    struct Hot : PreLN {
        static double gain(Role role, const Depth& depth) {
            return role == Role::query && depth.sublayer == SublayerKind::cross_attention ? 30.0 : 1.0;
        }
    };
    EncoderDecoderModel model;
    model.encoder_layers = 1;
    for (const auto& [layers, validity] : {std::pair{std::size_t(1), Validity::less_certain}, {6, Validity::fails}}) {
        model.decoder_layers = layers;
        const EncoderDecoderReport report = predict_encoder_decoder<PreLN, Hot>(model);
        CHECK(report.encoder.layers[0].w1.validity == validity);
        CHECK(report.encoder.layers[0].w1.limit == Limit::below_large_scores);
        CHECK(report.decoder.layers.back().cross_attention.wq.limit == Limit::large_scores);
        CHECK(report.decoder.layers.back().w1.validity == Validity::holds);
        CHECK(report.readout.validity == Validity::holds);
    }
}

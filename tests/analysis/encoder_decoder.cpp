// SPDX-License-Identifier: BSD-3-Clause
//
// What the prediction must fulfil by itself. Whether it agrees with what is measured is tested in
// measure/encoder_decoder.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/visit.hpp>
#include <string>
#include <vector>

using namespace normplace;

namespace {

EncoderDecoderModel small_model() {
    EncoderDecoderModel model;
    model.encoder_layers = 2;
    model.decoder_layers = 3;
    model.source = 12;
    model.target = 8;
    return model;
}

void check_same_stream(const StreamMoments& a, const StreamMoments& b) {
    CHECK(a.second_moment.value == b.second_moment.value);
    CHECK(a.token_correlation.value == b.token_correlation.value);
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

}  // namespace

TEST_CASE("the report is complete and positive for every placement of either stack") {
    EncoderDecoderModel model = small_model();
    model.initialization = Initialization::gpt2();
    const auto check = [&](const AnyPlacement& encoder, const AnyPlacement& decoder) {
        const EncoderDecoderReport report = predict_encoder_decoder(encoder, decoder, model);
        const auto is_silent = [](const AnyPlacement& placement) {
            return &placement == &any_placement<SwinV2> || &placement == &any_placement<SkipInit> ||
                   &placement == &any_placement<ReZero>;
        };
        const bool silent = is_silent(encoder) || is_silent(decoder);
        const auto norms_keys = [](const AnyPlacement& placement) { return placement.inside(Depth{}).key; };
        CAPTURE(report.encoder.placement);
        CAPTURE(report.decoder.placement);
        CHECK(report.warnings.empty());
        CHECK(report.seeds == 0);
        for_each_quantity(report, [&](const std::string& name, double value, double) {
            CAPTURE(name);
            const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
            const bool absent = (name.starts_with("encoder.final_norm") && !encoder.final_norm()) ||
                                (name.starts_with("decoder.final_norm") && !decoder.final_norm()) || has(".mix") ||
                                (has("key.bias") && norms_keys(has("encoder.") ? encoder : decoder));
            const bool zero = has("key.bias") || has("key_norm.bias") || name.ends_with("input.token_correlation") ||
                              has(".in0") || has(".in1") ||
                              ((has("encoder.") ? encoder : decoder).norm_kind == NormKind::unit_norm && has("norm"));
            if (absent) CHECK(std::isnan(value));
            else if (zero) CHECK(value == doctest::Approx(0.0));
            else if (silent) CHECK(value >= 0.0);
            else CHECK(value > 0.0);
        });
    };
    for (const AnyPlacement* placement : all_placements()) {
        check(*placement, any_placement<PreLN>);
        check(any_placement<PostLN>, *placement);
    }
}

TEST_CASE("forward, the encoder and the decoder's first self-attention are the single stacks'") {
    const EncoderDecoderModel model = small_model();
    const EncoderDecoderReport report = predict_encoder_decoder<PreLN, PostLN>(model);
    const GradientReport encoder = predict<PreLN>(model.encoder()), decoder = predict<PostLN>(model.decoder());
    for (std::size_t l = 0; l < 2; ++l) {
        check_same_stream(report.encoder.layers[l].attention.stream, encoder.layers[l].attention.stream);
        check_same_stream(report.encoder.layers[l].feed_forward.stream, encoder.layers[l].feed_forward.stream);
    }
    check_same_stream(report.decoder.layers[0].attention.stream, decoder.layers[0].attention.stream);
    CHECK(report.memory.second_moment.value == doctest::Approx(1.0).epsilon(1e-4));  // Pre-LN's final norm
    // Post-LN has none: the memory is what leaves the last layer.
    const EncoderDecoderReport post = predict_encoder_decoder<PostLN, PostLN>(model);
    check_same_stream(post.memory, post.encoder.layers[1].feed_forward.stream);
    CHECK(post.memory.gradient_second_moment.value ==
          post.encoder.layers[1].feed_forward.stream.gradient_second_moment.value);
}

TEST_CASE("what the decoder does not look at has no gradient") {
    // W_v = 0 in the decoder cuts the encoder off, and the rest is a decoder with a cross-attention that adds nothing.
    struct Deaf : PreLN {
        static double gain(Role role, const Depth& depth) {
            return role == Role::value && depth.sublayer == SublayerKind::cross_attention ? 0.0 : 1.0;
        }
    };
    const EncoderDecoderModel model = small_model();
    const EncoderDecoderReport deaf = predict_encoder_decoder<PreLN, Deaf>(model);
    const GradientReport alone = predict<PreLN>(model.decoder());
    CHECK(deaf.memory.gradient_second_moment.value == 0.0);
    for (const LayerReport& layer : deaf.encoder.layers)
        for (const auto weight :
             {&LayerReport::wq, &LayerReport::wv, &LayerReport::wo, &LayerReport::w1, &LayerReport::w2})
            CHECK((layer.*weight).norm == 0.0);
    for (std::size_t l = 0; l < 3; ++l) {
        const DecoderLayerReport& layer = deaf.decoder.layers[l];
        CHECK(layer.cross_attention.wv.norm > 0.0);
        CHECK(layer.cross_attention.wo.norm == 0.0);
        CHECK(layer.w2.norm == doctest::Approx(alone.layers[l].w2.norm).epsilon(1e-12));
        CHECK(layer.wv.norm == doctest::Approx(alone.layers[l].wv.norm).epsilon(1e-12));
    }
    CHECK(deaf.loss.value == doctest::Approx(alone.loss.value).epsilon(1e-12));
}

TEST_CASE(
    "Figure 3 of Xiong et al. 2020: from 6-6 to 14-14 the last layer's gradient falls for Pre-LN and stays for "
    "Post-LN") {
    const auto last = [](auto placement, std::size_t layers) {
        using P = decltype(placement);
        EncoderDecoderModel model;
        model.encoder_layers = model.decoder_layers = layers;
        return predict_encoder_decoder<P, P>(model).decoder.layers.back().w2.norm;
    };
    // Theorem 1 says L^-1/2 and L^0.
    const double pre = last(PreLN{}, 14) / last(PreLN{}, 6), post = last(PostLN{}, 14) / last(PostLN{}, 6);
    CHECK(pre == doctest::Approx(std::sqrt(6.0 / 14.0)).epsilon(0.05));
    CHECK(post == doctest::Approx(1.0).epsilon(0.03));
}

TEST_CASE("what the theory does not cover is a warning and a NaN, not a number") {
    EncoderDecoderModel model = small_model();
    model.initialization = Initialization::standard_deviation(0.15);
    const EncoderDecoderReport report = predict_encoder_decoder<PreLN, PreLN>(model);
    REQUIRE(report.warnings.size() == 3);
    CHECK(report.warnings[0].starts_with("the encoder's attention scores' variance reaches "));
    CHECK(report.warnings[1].starts_with("the decoder's self-attention scores' variance reaches "));
    CHECK(report.warnings[2].starts_with("the decoder's cross-attention scores' variance reaches "));
    CHECK(report.warnings[1].find("above 2 ln n = 4.16 (n = 8)") != std::string::npos);
    CHECK(report.warnings[2].find("above 2 ln n = 4.97 (n = 12)") != std::string::npos);
    CHECK(std::isnan(report.decoder.layers[0].cross_attention.wq.norm));
    CHECK(std::isnan(report.decoder.layers[0].cross_attention.wk.norm));
    CHECK(std::isfinite(report.decoder.layers[0].cross_attention.wv.norm));

    model.initialization = Initialization::xavier();
    model.encoder_layers = 4000;
    const EncoderDecoderReport overflows = predict_encoder_decoder<NoNorm, PreLN>(model);
    REQUIRE(!overflows.warnings.empty());
    CHECK(overflows.warnings[0].find("range of double precision") != std::string::npos);
    CHECK(overflows.warnings[0].find("4000 and 3 layers") != std::string::npos);
}

TEST_CASE("sizes of one are defined") {
    EncoderDecoderModel model;
    model.encoder_layers = model.decoder_layers = model.width = model.heads = model.feed_forward = 1;
    model.source = model.target = model.batch = model.vocabulary = 1;
    const EncoderDecoderReport report = predict_encoder_decoder<PreLN, PostLN>(model);
    CHECK(report.decoder.layers[0].cross_attention.wq.norm == 0.0);
    CHECK(report.loss.value == doctest::Approx(0.0).scale(1.0).epsilon(1e-5));
}

TEST_CASE("arguments are refused with their values") {
    EncoderDecoderModel model = small_model();
    model.heads = 7;
    CHECK(message([&] { predict_encoder_decoder<PreLN, PreLN>(model); }) ==
          "ReferenceModel: width 256 is not divisible by 7 heads");
    model = small_model();
    model.source = 0;
    CHECK(message([&] { predict_encoder_decoder<PreLN, PreLN>(model); }) ==
          "EncoderDecoderModel: source is 0, expected at least 1");
    model = small_model();
    model.decoder_layers = 0;
    CHECK(message([&] { predict_encoder_decoder<PreLN, PreLN>(model); }) ==
          "EncoderDecoderModel: decoder_layers is 0, expected at least 1");
}

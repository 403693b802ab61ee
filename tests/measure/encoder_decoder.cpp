// SPDX-License-Identifier: BSD-3-Clause
//
// read_gradients.hpp and encoder_decoder.hpp: the measurement itself, and that the prediction agrees with it.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/measure/encoder_decoder.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

EncoderDecoderModel small_encoder_decoder() {
    EncoderDecoderModel model;
    model.encoder_layers = 2;
    model.decoder_layers = 3;
    model.width = 16;
    model.heads = 2;
    model.feed_forward = 32;
    model.source = 6;
    model.target = 5;
    model.batch = 2;
    model.vocabulary = 11;
    return model;
}

std::vector<double> values(const EncoderDecoderReport& report) {
    std::vector<double> all;
    for_each_quantity(report, [&](const std::string&, double value, double error) {
        all.push_back(value);
        all.push_back(error);
    });
    return all;
}
bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    return true;
}

/// A 6-6 model in which 32 seeds take seconds.
EncoderDecoderModel figure_3(std::size_t layers) {
    EncoderDecoderModel model;
    model.encoder_layers = model.decoder_layers = layers;
    model.width = 128;
    model.feed_forward = 512;
    model.source = model.target = 16;
    return model;
}

/// Every matrix within its bound and two standard errors, and all but W_q and W_k within `mean_bound` on average, where
/// the seeds' noise is smaller.
template <class P>
void check_agreement(double bound, double query_key_bound, double mean_bound) {
    const EncoderDecoderModel model = figure_3(6);
    const EncoderDecoderReport predicted = predict_encoder_decoder<P, P>(model);
    const EncoderDecoderReport measured = measure_encoder_decoder<P, P>(model, {.seeds = 32});
    std::vector<double> expected;
    for_each_quantity(predicted, [&](const std::string&, double value, double) { expected.push_back(value); });
    double sum = 0.0, count = 0.0;
    std::size_t at = 0, query_keys = 0;
    for_each_quantity(measured, [&](const std::string& name, double value, double error) {
        const double ratio = expected[at++] / value, noise = 2.0 * error / value;
        if (!name.ends_with(".weight") || name.starts_with("readout")) return;
        INFO(P::name, ", ", name, ": predicted / measured ", ratio, " +- ", 0.5 * noise);
        if (name.ends_with(".query.weight") || name.ends_with(".key.weight")) {
            CHECK(std::abs(ratio - 1.0) < query_key_bound + noise);
            ++query_keys;
        } else {
            CHECK(std::abs(ratio - 1.0) < bound + noise);
            sum += std::log(ratio);
            ++count;
        }
    });
    CHECK(count == 6 * 4 + 6 * 6);
    CHECK(query_keys == 6 * 2 + 6 * 4);
    MESSAGE(std::string(P::name), ": geometric mean ", std::exp(sum / count));
    CHECK(std::abs(sum / count) < mean_bound);
    CHECK(predicted.readout.norm == doctest::Approx(measured.readout.norm).epsilon(0.02));
    CHECK(predicted.loss.value == doctest::Approx(measured.loss.value).epsilon(0.01));
    CHECK(std::abs(predicted.memory.token_correlation.value - measured.memory.token_correlation.value) < 0.02);
}

}  // namespace

TEST_CASE("the same seeds give the same report, whatever the number of threads") {
    const auto one =
        values(measure_encoder_decoder<PreLN, PostLN>(small_encoder_decoder(), {.seeds = 4, .threads = 1}));
    CHECK(same_values(
        one, values(measure_encoder_decoder<PreLN, PostLN>(small_encoder_decoder(), {.seeds = 4, .threads = 2}))));
    CHECK_FALSE(same_values(
        one, values(measure_encoder_decoder<PreLN, PostLN>(small_encoder_decoder(), {.seeds = 5, .threads = 1}))));
}

TEST_CASE("norms are root mean squares over seeds, with the standard error of that") {
    // Seeds are the same in every call, so the squares of single seeds follow from reports over 1, 2 and 3 of them.
    std::vector<double> mean_square;
    for (const std::size_t seeds : {std::size_t(1), std::size_t(2), std::size_t(3)}) {
        const GradientNorm w2 =
            measure_encoder_decoder<PreLN, PostLN>(small_encoder_decoder(), {.seeds = seeds}).decoder.layers[1].w2;
        mean_square.push_back(w2.norm * w2.norm);
    }
    const double a = mean_square[0], b = 2 * mean_square[1] - a, c = 3 * mean_square[2] - a - b;
    const double mean = (a + b + c) / 3.0;
    const double variance = ((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2.0;
    const EncoderDecoderReport report = measure_encoder_decoder<PreLN, PostLN>(small_encoder_decoder(), {.seeds = 3});
    const GradientNorm w2 = report.decoder.layers[1].w2;
    CHECK(w2.norm == doctest::Approx(std::sqrt(mean)).epsilon(1e-10));
    CHECK(w2.standard_error == doctest::Approx(std::sqrt(variance / 3.0) / (2.0 * std::sqrt(mean))).epsilon(1e-8));
    CHECK(report.seeds == 3);
}

TEST_CASE("every quantity of the model has a number, and only those") {
    std::vector<std::string> absent;
    const EncoderDecoderReport report = measure_encoder_decoder<PreLN, PostLN>(small_encoder_decoder());
    for_each_quantity(report, [&](const std::string& name, double value, double) {
        if (std::isnan(value)) absent.push_back(name);
    });
    CHECK(absent == std::vector<std::string>{"decoder.final_norm.gain", "decoder.final_norm.bias"});
    EncoderDecoderModel model = small_encoder_decoder();
    const auto layer_norm = values(measure_encoder_decoder<PreLN, PostLN>(model, {.seeds = 2}));
    model.norm = NormKind::rms_norm;
    CHECK_FALSE(same_values(layer_norm, values(measure_encoder_decoder<PreLN, PostLN>(model, {.seeds = 2}))));
}

TEST_CASE("prediction and measurement agree") {
    // The prediction's error at finite width is of the order 1/D, and n/D for the encoder's first layers: 10/D at D =
    // 128 (encoder_decoder.hpp). W_q and W_k feel what is left of the tokens' differences, so the most where tokens
    // have aligned, in the last layers of Post-LN.
    check_agreement<PreLN>(10.0 / 128.0, 0.12, 0.03);
    check_agreement<PostLN>(10.0 / 128.0, 0.25, 0.06);
}

TEST_CASE("Figure 3 (c, d) of Xiong et al. 2020: the last layer of 14-14") {
    const auto check = [](auto placement) {
        using P = decltype(placement);
        const GradientNorm measured =
            measure_encoder_decoder<P, P>(figure_3(14), {.seeds = 8}).decoder.layers.back().w2;
        const double predicted = predict_encoder_decoder<P, P>(figure_3(14)).decoder.layers.back().w2.norm;
        CAPTURE(P::name);
        CHECK(std::abs(predicted - measured.norm) < 0.05 * measured.norm + 2.0 * measured.standard_error);
    };
    check(PreLN{});
    check(PostLN{});
}

TEST_CASE("progress counts every seed once, and its exception reaches the caller") {
    std::vector<std::size_t> seen;
    measure_encoder_decoder<PreLN, PostLN>(
        small_encoder_decoder(),
        {.seeds = 3, .progress = [&](std::size_t done, std::size_t) { seen.push_back(done); }});
    CHECK(seen == std::vector<std::size_t>{1, 2, 3});
    CHECK_THROWS_WITH(
        (measure_encoder_decoder<PreLN, PostLN>(
            small_encoder_decoder(),
            {.seeds = 3, .progress = [](std::size_t, std::size_t) { throw std::runtime_error("stop"); }})),
        "stop");
}

TEST_CASE("wrong arguments are refused with their values") {
    EncoderDecoderModel model = small_encoder_decoder();
    CHECK_THROWS_WITH((measure_encoder_decoder<PreLN, PostLN>(model, {.seeds = 0})),
                      "measure_encoder_decoder: seeds is 0, expected at least 1");
    model.target = 0;
    CHECK_THROWS_WITH((measure_encoder_decoder<PreLN, PostLN>(model)),
                      "EncoderDecoderModel: target is 0, expected at least 1");
}

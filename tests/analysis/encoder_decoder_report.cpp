// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/encoder_decoder_report.hpp>
#include <normplace/placement/catalogue.hpp>
#include <set>
#include <string>
#include <vector>

using namespace normplace;

TEST_CASE("an empty report has the form of its placements, every quantity once and no value") {
    EncoderDecoderModel model;
    model.encoder_layers = 2;
    model.decoder_layers = 3;
    EncoderDecoderReport report = empty_report(any_placement<PostLN>, any_placement<PeriLN>, model);
    CHECK(report.encoder.placement == "post-ln");
    CHECK(report.decoder.formula == "x + norm<out>(f(norm<in>(x)))");
    CHECK(report.encoder.layers.size() == 2);
    CHECK(report.decoder.layers.size() == 3);
    CHECK(report.encoder.layers[1].attention.norms.size() == 1);
    CHECK(report.decoder.layers[2].cross_attention.norms.size() == 2);
    std::set<std::string> names;
    for_each_quantity(report, [&](const std::string& name, double& value, double& error) {
        CHECK(std::isnan(value));
        CHECK(error == 0.0);
        CHECK(names.insert(name).second);
    });
    for (const char* name :
         {"loss", "memory.token_correlation", "encoder.layers.1.attention.query.weight",
          "encoder.layers.0.feed_forward.norm.gain", "decoder.layers.2.self_attention.key.bias",
          "decoder.layers.0.cross_attention.out.weight", "decoder.layers.1.cross_attention.norm_in.bias",
          "decoder.layers.1.feed_forward.linear2.weight", "decoder.final_norm.gain", "readout.weight"})
        CHECK(names.count(name) == 1);
    CHECK(names.size() == 1 + 3 * 3 + 2 * (12 + 2 * 2 + 2 * 3) + 3 * (20 + 3 * 4 + 3 * 3) + 4 + 1);
}

TEST_CASE("the walk writes through, and reads a constant report") {
    EncoderDecoderReport report = empty_report(any_placement<PreLN>, any_placement<PreLN>, {});
    for_each_quantity(report, [](const std::string& name, double& value, double&) {
        if (name == "decoder.layers.5.cross_attention.value.weight") value = 2.5;
    });
    CHECK(report.decoder.layers[5].cross_attention.wv.norm == 2.5);
    const EncoderDecoderReport& same = report;
    std::size_t found = 0;
    for_each_quantity(same, [&](const std::string&, double value, double) { found += value == 2.5; });
    CHECK(found == 1);
}

TEST_CASE("the two stacks have the model's sizes, the decoder a causal mask") {
    EncoderDecoderModel model;
    model.encoder_layers = 2;
    model.decoder_layers = 3;
    model.source = 5;
    model.target = 7;
    model.activation = gelu;
    model.norm = NormKind::rms_norm;
    model.initialization = Initialization::gpt2();
    const ReferenceModel encoder = model.encoder(), decoder = model.decoder();
    CHECK(encoder.layers == 2);
    CHECK(decoder.layers == 3);
    CHECK(encoder.sequence == 5);
    CHECK(decoder.sequence == 7);
    CHECK_FALSE(encoder.causal);
    CHECK(decoder.causal);
    for (const ReferenceModel& stack : {encoder, decoder}) {
        CHECK(stack.width == model.width);
        CHECK(stack.heads == model.heads);
        CHECK(stack.feed_forward == model.feed_forward);
        CHECK(stack.batch == model.batch);
        CHECK(stack.vocabulary == model.vocabulary);
        CHECK(stack.activation == gelu);
        CHECK(stack.norm == NormKind::rms_norm);
        CHECK(stack.epsilon == model.epsilon);
        CHECK(stack.initialization == Initialization::gpt2());
        CHECK(stack.output_projection);
    }
}

TEST_CASE("a stack's branches stand in the order of its sublayers, three of a decoder's layer") {
    StackReport<LayerReport> encoder;
    StackReport<DecoderLayerReport> decoder;
    CHECK(encoder.branch_squares().empty());
    encoder.layers.resize(2);
    decoder.layers.resize(1);
    encoder.layers[0].attention.branch_square = 1.0;
    encoder.layers[0].feed_forward.branch_square = 2.0;
    encoder.layers[1].attention.branch_square = 3.0;
    encoder.layers[1].feed_forward.branch_square = 4.0;
    decoder.layers[0].attention.branch_square = 5.0;
    decoder.layers[0].cross_attention.branch_square = 6.0;
    decoder.layers[0].feed_forward.branch_square = 7.0;
    CHECK(encoder.branch_squares() == std::vector<double>{1.0, 2.0, 3.0, 4.0});
    CHECK(decoder.branch_squares() == std::vector<double>{5.0, 6.0, 7.0});
}

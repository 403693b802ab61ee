// SPDX-License-Identifier: BSD-3-Clause
//
// The placements whose constants know both depths of an encoder-decoder, against their papers' formulas written in
// PyTorch (tests/golden/generate_encoder_decoder.py), with different depths: logits, all gradients, and how large every
// matrix starts.
#include <doctest/doctest.h>

#include <nn/golden.hpp>
#include <normplace/nn/transformer.hpp>
#include <normplace/placement/visit.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

using Model = AnyTransformer<double, LayerNorm<double>>;

Model model_of(const Golden& golden, const AnyPlacement& placement) {
    const auto& config = golden.config;
    return Model(placement, placement,
                 {.source_vocabulary = config.at("vocabulary"),
                  .target_vocabulary = config.at("vocabulary"),
                  .encoder_layers = config.at("encoder_layers"),
                  .decoder_layers = config.at("decoder_layers"),
                  .width = config.at("width"),
                  .heads = config.at("heads"),
                  .feed_forward = config.at("feed_forward"),
                  .positions = 4,
                  .tied = Tied::readout,
                  .epsilon = config.at("epsilon")});
}

void check_run(Golden& golden, const AnyPlacement& placement) {
    Model model = model_of(golden, placement);
    Model::Cache cache;
    Model::Gradients gradients;
    const auto parameters = golden_parameters<double>(model, gradients);
    golden.fill(parameters);
    Activations<double> logits;
    model.forward(table<Tokens>(golden.config.at("source")), {}, table<Tokens>(golden.config.at("target")), logits,
                  cache);
    golden.check("logits", view(logits));
    model.backward(golden.activations<double>("dlogits"), cache, gradients);
    golden.check_gradients(parameters);
    golden.check_all_read();
}

/// The same draws, with the placement's gains and without: their ratio is the gain.
void check_gains(const Golden& golden, const AnyPlacement& placement) {
    AnyPlacement without = placement;
    without.gain = [](Role, const Depth&) { return 1.0; };
    Model scaled = model_of(golden, placement), xavier = model_of(golden, without);
    for (Model* model : {&scaled, &xavier}) {
        RandomEngine random(1);
        model->initialize(random);
    }
    std::size_t matrices = 0;
    for_each_parameter(
        [&](const std::string& name, const auto& value, const auto& reference) {
            if (!name.ends_with(".weight")) return;
            CAPTURE(name);
            const double gain = golden.config.at("gains").at(name);
            ++matrices;
            bool close = true;
            for (std::size_t i = 0; i < value.size(); ++i) {
                const double ratio = value.data()[i] / reference.data()[i];
                close = close && std::abs(ratio - gain) <= 1e-12 * gain;
            }
            CHECK(close);
        },
        scaled, std::as_const(xavier));
    CHECK(matrices == golden.config.at("gains").size());
}

}  // namespace

TEST_CASE("encoder-decoders of different depths, with constants of both") {
    for (const std::string name : {"deep-norm", "sub-ln", "t-fixup"}) {
        CAPTURE(name);
        Golden golden(name + "-encoder-decoder");
        const AnyPlacement& placement = placement_named(name);
        check_run(golden, placement);
        check_gains(golden, placement);
    }
}

// SPDX-License-Identifier: BSD-3-Clause
#include "predicted_branches.hpp"

#include <algorithm>
#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/visit.hpp>

namespace training {
namespace {

constexpr std::size_t longest = 512;  // memory and time grow with the square

bool starts_by_branches(const np::AnyPlacement& placement) { return np::syntax::has_gate_law(placement.formula); }

}  // namespace

np::TransformerOptions with_predicted_branches(const np::TransformerOptions& options,
                                               const std::string& encoder_placement,
                                               const std::string& decoder_placement,
                                               const np::Initialization& initialization, std::size_t source,
                                               std::size_t target) {
    const np::AnyPlacement encoder = np::placement_named(encoder_placement),
                           decoder = np::placement_named(decoder_placement);
    if (!starts_by_branches(encoder) && !starts_by_branches(decoder)) return options;
    const np::EncoderDecoderReport report =
        np::predict_encoder_decoder(encoder, decoder,
                                    {.encoder_layers = options.encoder_layers,
                                     .decoder_layers = options.decoder_layers,
                                     .width = options.width,
                                     .heads = options.heads,
                                     .feed_forward = options.feed_forward,
                                     .source = std::clamp<std::size_t>(source, 1, longest),
                                     .target = std::clamp<std::size_t>(target, 1, longest),
                                     .batch = 1,
                                     .vocabulary = options.target_vocabulary,
                                     .epsilon = options.epsilon,
                                     .activation = options.activation,
                                     .initialization = initialization});
    np::TransformerOptions with = options;
    if (starts_by_branches(encoder)) with.encoder_branch_squares = report.encoder.branch_squares();
    if (starts_by_branches(decoder)) with.decoder_branch_squares = report.decoder.branch_squares();
    return with;
}

np::LanguageModelOptions with_predicted_branches(const np::LanguageModelOptions& options, const std::string& placement,
                                                 const np::Initialization& initialization) {
    const np::AnyPlacement named = np::placement_named(placement);
    if (!starts_by_branches(named)) return options;
    np::LanguageModelOptions with = options;
    with.branch_squares = np::predict(named, {.layers = options.layers,
                                              .width = options.width,
                                              .heads = options.heads,
                                              .feed_forward = options.feed_forward,
                                              .sequence = std::clamp<std::size_t>(options.positions, 1, longest),
                                              .batch = 1,
                                              .vocabulary = options.vocabulary,
                                              .causal = options.causal,
                                              .epsilon = options.epsilon,
                                              .activation = options.activation,
                                              .initialization = initialization})
                              .branch_squares();
    return with;
}

}  // namespace training

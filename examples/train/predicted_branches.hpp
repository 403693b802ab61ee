// SPDX-License-Identifier: BSD-3-Clause
//
// Where learned factors start that a placement sets by its sublayers' outputs, as Admin does: E f(x)^2 of each
// sublayer, predicted for independent tokens, as `profile` has them. The positions of a translation make its tokens
// more alike than that: at 6-6 layers of width 128 and a dozen tokens, the factors are 9 to 17 % below those that a
// first pass would give.
#pragma once

#include <normplace/nn/language_model.hpp>
#include <normplace/nn/transformer.hpp>
#include <string>

namespace training {

namespace np = normplace;

/// The options with each stack's branch_squares; as they are where neither placement asks for them.
/// @param source, target tokens of a sentence, on average
np::TransformerOptions with_predicted_branches(const np::TransformerOptions& options,
                                               const std::string& encoder_placement,
                                               const std::string& decoder_placement,
                                               const np::Initialization& initialization, std::size_t source,
                                               std::size_t target);
/// For windows of `options.positions` tokens, or of the longest for which a prediction takes a moment.
np::LanguageModelOptions with_predicted_branches(const np::LanguageModelOptions& options, const std::string& placement,
                                                 const np::Initialization& initialization);

}  // namespace training

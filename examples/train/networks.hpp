// SPDX-License-Identifier: BSD-3-Clause
//
// The library's two models, made by the placements' names, with gradients and working memory. They stand behind
// interfaces so that the rest of the program compiles without them.
#pragma once

#include <memory>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/language_model.hpp>
#include <normplace/nn/parameter_list.hpp>
#include <normplace/nn/transformer.hpp>
#include <normplace/text/language_model_batch.hpp>
#include <normplace/text/padded_batch.hpp>
#include <span>
#include <string>
#include <vector>

namespace training {

namespace np = normplace;

/// What trains on batches of one kind.
template <class Batch>
class Network {
public:
    virtual ~Network() = default;
    /// Points into the network, which stays where it is.
    virtual const np::ParameterList<float>& parameters() const = 0;
    /// Adds the gradients of the summed loss.
    virtual np::LossSum differentiate(const Batch& batch, const np::DropoutKey& dropout, double label_smoothing) = 0;
    /// Without dropout and smoothing.
    virtual np::LossSum evaluate(const Batch& batch) = 0;
};

class TranslationNetwork : public Network<np::TranslationBatch> {
public:
    /// Reads sources (B, M), whose lengths say where the padding begins, for `decode`.
    virtual void encode(const np::IdTable& source, const std::vector<std::size_t>& lengths) = 0;
    /// Logits (R, V) of what follows `last` at `position`, as beam_search asks for them.
    virtual std::span<const float> decode(const std::vector<int>& last, const std::vector<std::size_t>& parents,
                                          std::size_t position, std::size_t longest) = 0;
};

using LanguageNetwork = Network<np::LanguageModelBatch>;

std::unique_ptr<TranslationNetwork> make_translation_network(const std::string& encoder_placement,
                                                             const std::string& decoder_placement,
                                                             const np::TransformerOptions& options,
                                                             const np::Initialization& initialization,
                                                             std::uint64_t seed);
std::unique_ptr<LanguageNetwork> make_language_network(const std::string& placement,
                                                       const np::LanguageModelOptions& options,
                                                       const np::Initialization& initialization, std::uint64_t seed);

/// The same ids, as the model takes them.
inline void copy_ids(const np::IdTable& table, np::Tokens& tokens) {
    np::detail::reshape(tokens, {table.rows, table.columns});
    std::copy(table.ids.begin(), table.ids.end(), tokens.data());
}

}  // namespace training

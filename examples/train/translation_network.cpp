// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/nn/any_norm.hpp>
#include <normplace/placement/visit.hpp>

#include "networks.hpp"

namespace training {
namespace {

class Transformer final : public TranslationNetwork {
    using Model = np::AnyTransformer<float, np::AnyNorm<float>>;

public:
    Transformer(const np::AnyPlacement& encoder, const np::AnyPlacement& decoder, const np::TransformerOptions& options,
                const np::Initialization& initialization, std::uint64_t seed)
        : model_(encoder, decoder, options) {
        np::RandomEngine random(seed);
        model_.initialize(random, initialization);
        np::zero_gradients(model_, gradients_);
        parameters_ = np::parameter_list(model_, gradients_);
    }

    const np::ParameterList<float>& parameters() const override { return parameters_; }

    np::LossSum differentiate(const np::TranslationBatch& batch, const np::DropoutKey& dropout,
                              double label_smoothing) override {
        const np::LossSum loss = forward(batch, dropout, label_smoothing);
        model_.backward(logits_, cache_, gradients_);
        return loss;
    }
    np::LossSum evaluate(const np::TranslationBatch& batch) override { return forward(batch, {}, 0.0); }

    void encode(const np::IdTable& source, const std::vector<std::size_t>& lengths) override {
        set_source(source, lengths);
        cache_.dropout = {};
        model_.encode(source_, padding_, cache_);
    }
    std::span<const float> decode(const std::vector<int>& last, const std::vector<std::size_t>& parents,
                                  std::size_t position, std::size_t longest) override {
        np::detail::reshape(target_, {last.size(), 1});
        std::copy(last.begin(), last.end(), target_.data());
        model_.decode(target_, parents, {.position = position, .length = longest}, logits_, cache_);
        return {logits_.data(), logits_.size()};
    }

private:
    void set_source(const np::IdTable& source, const std::vector<std::size_t>& lengths) {
        copy_ids(source, source_);
        np::detail::reshape(padding_, {source.rows, source.columns});
        for (std::size_t b = 0; b < source.rows; ++b)
            for (std::size_t i = 0; i < source.columns; ++i) padding_(b, i) = i >= lengths[b];
    }
    /// The loss; logits_ become its gradient.
    np::LossSum forward(const np::TranslationBatch& batch, const np::DropoutKey& dropout, double label_smoothing) {
        set_source(batch.source, batch.source_lengths);
        copy_ids(batch.decoder_input, target_);
        copy_ids(batch.decoder_target, targets_);
        cache_.dropout = dropout;
        model_.forward(source_, padding_, target_, logits_, cache_);
        return np::cross_entropy_sum(logits_, targets_, logits_, {.label_smoothing = label_smoothing});
    }

    Model model_;
    Model::Gradients gradients_;
    Model::Cache cache_;
    np::ParameterList<float> parameters_;
    np::Tokens source_, target_, targets_;
    np::KeyPaddingMask padding_;
    np::Activations<float> logits_;
};

}  // namespace

std::unique_ptr<TranslationNetwork> make_translation_network(const std::string& encoder_placement,
                                                             const std::string& decoder_placement,
                                                             const np::TransformerOptions& options,
                                                             const np::Initialization& initialization,
                                                             std::uint64_t seed) {
    return std::make_unique<Transformer>(np::placement_named(encoder_placement), np::placement_named(decoder_placement),
                                         options, initialization, seed);
}

}  // namespace training

// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/nn/any_norm.hpp>
#include <normplace/placement/visit.hpp>

#include "networks.hpp"

namespace training {
namespace {

class LanguageModel final : public LanguageNetwork {
    using Model = np::AnyLanguageModel<float, np::AnyNorm<float>>;

public:
    LanguageModel(const np::AnyPlacement& placement, const np::LanguageModelOptions& options,
                  const np::Initialization& initialization, std::uint64_t seed)
        : model_(placement, options) {
        np::RandomEngine random(seed);
        model_.initialize(random, initialization);
        np::zero_gradients(model_, gradients_);
        parameters_ = np::parameter_list(model_, gradients_);
    }

    const np::ParameterList<float>& parameters() const override { return parameters_; }

    np::LossSum differentiate(const np::LanguageModelBatch& batch, const np::DropoutKey& dropout,
                              double label_smoothing) override {
        const np::LossSum loss = forward(batch, dropout, label_smoothing);
        model_.backward(logits_, cache_, gradients_);
        return loss;
    }
    np::LossSum evaluate(const np::LanguageModelBatch& batch) override { return forward(batch, {}, 0.0); }

private:
    /// The loss; logits_ become its gradient.
    np::LossSum forward(const np::LanguageModelBatch& batch, const np::DropoutKey& dropout, double label_smoothing) {
        copy_ids(batch.tokens, tokens_);
        copy_ids(batch.targets, targets_);
        cache_.dropout = dropout;
        model_.forward(tokens_, logits_, cache_);
        return np::cross_entropy_sum(logits_, targets_, logits_, {.label_smoothing = label_smoothing});
    }

    Model model_;
    Model::Gradients gradients_;
    Model::Cache cache_;
    np::ParameterList<float> parameters_;
    np::Tokens tokens_, targets_;
    np::Activations<float> logits_;
};

}  // namespace

std::unique_ptr<LanguageNetwork> make_language_network(const std::string& placement,
                                                       const np::LanguageModelOptions& options,
                                                       const np::Initialization& initialization, std::uint64_t seed) {
    return std::make_unique<LanguageModel>(np::placement_named(placement), options, initialization, seed);
}

}  // namespace training

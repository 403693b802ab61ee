// SPDX-License-Identifier: BSD-3-Clause
//
// A model together with the data that it learns from: all that a training run needs of either. Which batch is computed
// depends on its number alone, so a run that is resumed sees what it would have seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <normplace/train/training_loop.hpp>
#include <optional>
#include <string>
#include <vector>

#include "networks.hpp"
#include "vocabulary.hpp"

namespace training {

/// Means over the tokens of the validation set.
struct Evaluation {
    double loss = 0.0;  ///< in nats
    double accuracy = 0.0;
};

class Task {
public:
    virtual ~Task() = default;
    virtual const np::ParameterList<float>& parameters() const = 0;
    virtual std::uint64_t batches_per_epoch() const = 0;
    /// Adds the gradients of batch `number`, counted from 0 through the run.
    virtual np::LossSum differentiate(std::uint64_t number) = 0;
    virtual Evaluation validate() = 0;
};

/// How a task regularises, and what it draws from: batches, dropout and masks.
struct Regularization {
    double dropout = 0.0;  ///< of embeddings and sublayers' outputs
    double label_smoothing = 0.0;
    std::uint64_t seed = 1;
    double attention_dropout = 0.0, activation_dropout = 0.0;
};

/// Batches made anew for each epoch, and the one in use.
class EpochBatches {
public:
    template <class Make>
    const np::Batch& batch(std::uint64_t number, const Make& make) {
        if (batches_.empty()) load(0, make);
        const std::uint64_t epoch = number / batches_.size();
        if (epoch != epoch_) load(epoch, make);
        return batches_[number % batches_.size()];
    }

private:
    template <class Make>
    void load(std::uint64_t epoch, const Make& make) {
        batches_ = make(epoch);
        epoch_ = epoch;
    }
    std::vector<np::Batch> batches_;
    std::uint64_t epoch_ = 0;
};

/// Tokens that a translation of `source` tokens may have.
inline std::size_t longest_translation(std::size_t source) { return source * 3 / 2 + 10; }

struct TranslationData {
    np::EncodedCorpus training, validation;
    np::BatchOptions batches;
    std::size_t positions = 0;  ///< of the longest sequence, sources to be translated and their translations included
    std::uint64_t fingerprint = 0;  ///< of all ids
};

class TranslationTask final : public Task {
public:
    TranslationTask(std::unique_ptr<TranslationNetwork> network, std::shared_ptr<const TranslationData> data,
                    const Regularization& regularization);

    const np::ParameterList<float>& parameters() const override { return network_->parameters(); }
    std::uint64_t batches_per_epoch() const override { return batches_per_epoch_; }
    np::LossSum differentiate(std::uint64_t number) override;
    Evaluation validate() override;

    /// The best translation of each source by beam search, of at most 1.5 times as many tokens plus 10. After each
    /// batch of sentences `go_on` is told how many are done; when it says no there is no result.
    std::optional<std::vector<std::vector<int>>> translate(const std::vector<std::vector<int>>& sources,
                                                           std::size_t beam, double length_penalty,
                                                           const std::function<bool(std::size_t)>& go_on = {});

private:
    std::unique_ptr<TranslationNetwork> network_;
    std::shared_ptr<const TranslationData> data_;
    Regularization regularization_;
    std::vector<np::ExampleLength> lengths_;
    EpochBatches batches_;
    std::uint64_t batches_per_epoch_;
    std::vector<np::TranslationBatch> validation_;
};

/// A stream of tokens, in windows.
struct LanguageData {
    std::vector<int> training, validation;
    std::size_t sequence = 0, batch = 0;
    bool masked = false;  ///< predict hidden tokens, instead of the next
    np::MaskingOptions masking;
    std::uint64_t fingerprint = 0;  ///< of all ids
};

class LanguageTask final : public Task {
public:
    LanguageTask(std::unique_ptr<LanguageNetwork> network, std::shared_ptr<const LanguageData> data,
                 const Regularization& regularization);

    const np::ParameterList<float>& parameters() const override { return network_->parameters(); }
    std::uint64_t batches_per_epoch() const override { return batches_per_epoch_; }
    np::LossSum differentiate(std::uint64_t number) override;
    Evaluation validate() override;

private:
    np::LanguageModelBatch batch(const std::vector<int>& stream, const np::Batch& windows, std::uint64_t seed,
                                 std::uint64_t number) const;

    std::unique_ptr<LanguageNetwork> network_;
    std::shared_ptr<const LanguageData> data_;
    Regularization regularization_;
    EpochBatches batches_;
    std::uint64_t batches_per_epoch_;
    std::vector<np::LanguageModelBatch> validation_;
};

}  // namespace training

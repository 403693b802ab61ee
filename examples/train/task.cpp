// SPDX-License-Identifier: BSD-3-Clause
#include "task.hpp"

#include <normplace/text/beam_search.hpp>

namespace training {
namespace {

np::DropoutKey dropout_key(const Regularization& regularization, std::uint64_t batch) {
    return np::DropoutKey{regularization.seed, regularization.dropout, regularization.attention_dropout,
                          regularization.activation_dropout}
        .at(batch);
}

template <class Network, class Batches>
Evaluation evaluate(Network& network, const Batches& batches) {
    np::LossSum sum;
    for (const auto& batch : batches) {
        const np::LossSum loss = network.evaluate(batch);
        sum.negative_log_likelihood += loss.negative_log_likelihood;
        sum.tokens += loss.tokens;
        sum.correct += loss.correct;
    }
    const double tokens = static_cast<double>(sum.tokens);
    return {sum.negative_log_likelihood / tokens, static_cast<double>(sum.correct) / tokens};
}

}  // namespace

TranslationTask::TranslationTask(std::unique_ptr<TranslationNetwork> network,
                                 std::shared_ptr<const TranslationData> data, const Regularization& regularization)
    : network_(std::move(network)),
      data_(std::move(data)),
      regularization_(regularization),
      lengths_(np::example_lengths(data_->training)),
      batches_per_epoch_(np::make_batches(lengths_, data_->batches, regularization_.seed, 0).size()) {
    const auto lengths = np::example_lengths(data_->validation);
    for (const np::Batch& batch : np::make_batches(lengths, {.examples = 64}, 0, 0))
        validation_.push_back(np::translation_batch(data_->validation, batch));
}

np::LossSum TranslationTask::differentiate(std::uint64_t number) {
    const np::Batch& examples = batches_.batch(number, [&](std::uint64_t epoch) {
        return np::make_batches(lengths_, data_->batches, regularization_.seed, epoch);
    });
    return network_->differentiate(np::translation_batch(data_->training, examples),
                                   dropout_key(regularization_, number), regularization_.label_smoothing);
}

Evaluation TranslationTask::validate() { return evaluate(*network_, validation_); }

std::optional<std::vector<std::vector<int>>> TranslationTask::translate(const std::vector<std::vector<int>>& sources,
                                                                        std::size_t beam, double length_penalty,
                                                                        const std::function<bool(std::size_t)>& go_on) {
    std::vector<np::ExampleLength> lengths;
    for (const auto& source : sources) lengths.push_back({source.size() + 1, 0});
    std::vector<std::vector<int>> translations(sources.size());
    std::size_t done = 0;
    for (const np::Batch& batch : np::make_batches(lengths, {.examples = 32}, 0, 0)) {
        std::vector<std::vector<int>> sentences;
        std::vector<std::size_t> source_lengths, longest;
        std::size_t most = 0;
        for (const std::size_t example : batch) {
            sentences.push_back(sources[example]);
            source_lengths.push_back(lengths[example].source);
            longest.push_back(longest_translation(sources[example].size()));
            most = std::max(most, longest.back());
        }
        network_->encode(np::pad_sources(sentences), source_lengths);
        std::size_t position = 0;
        const auto step = [&](const std::vector<int>& last, const std::vector<std::size_t>& parents) {
            return network_->decode(last, parents, position++, most);
        };
        const auto hypotheses = np::beam_search(
            step, longest,
            {.begin = Vocabulary::begin, .end = Vocabulary::end, .beam = beam, .length_penalty = length_penalty});
        for (std::size_t i = 0; i < batch.size(); ++i)
            if (!hypotheses[i].empty()) translations[batch[i]] = hypotheses[i].front().tokens;
        done += batch.size();
        if (go_on && !go_on(done)) return std::nullopt;
    }
    return translations;
}

LanguageTask::LanguageTask(std::unique_ptr<LanguageNetwork> network, std::shared_ptr<const LanguageData> data,
                           const Regularization& regularization)
    : network_(std::move(network)),
      data_(std::move(data)),
      regularization_(regularization),
      batches_per_epoch_(
          np::window_batches(data_->training.size(), data_->sequence, data_->batch, regularization_.seed, 0).size()) {
    constexpr std::uint64_t validation_seed = 0;  // one validation set, whatever the run's seed
    for (const np::Batch& windows :
         np::window_batches(data_->validation.size(), data_->sequence, data_->batch, validation_seed, 0))
        validation_.push_back(batch(data_->validation, windows, validation_seed, validation_.size()));
}

np::LanguageModelBatch LanguageTask::batch(const std::vector<int>& stream, const np::Batch& windows, std::uint64_t seed,
                                           std::uint64_t number) const {
    np::LanguageModelBatch result = np::window_batch(stream, data_->sequence, windows);
    if (!data_->masked) return result;
    constexpr std::uint64_t masks = 0x6d61736b;  // another stream of random numbers than the order of the windows
    return np::mask_tokens(std::move(result.tokens), data_->masking, seed ^ masks, number);
}

np::LossSum LanguageTask::differentiate(std::uint64_t number) {
    const np::Batch& windows = batches_.batch(number, [&](std::uint64_t epoch) {
        return np::window_batches(data_->training.size(), data_->sequence, data_->batch, regularization_.seed, epoch);
    });
    return network_->differentiate(batch(data_->training, windows, regularization_.seed, number),
                                   dropout_key(regularization_, number), regularization_.label_smoothing);
}

Evaluation LanguageTask::validate() { return evaluate(*network_, validation_); }

}  // namespace training

// SPDX-License-Identifier: BSD-3-Clause
//
// A whole training step of a byte language model, and what of it takes the time: its layers, and its readout with the
// loss. What the step adds, the batch, the embedding, clipping and Adam, is to be little. The layers are measured
// twice: as layer.cpp does, one layer again and again, whose weights and cache stay in the processor's; and as the
// stack that they are, where those of the other layers drive them out between forward and backward.
#include <algorithm>
#include <memory>
#include <stdexcept>

#include <normplace/nn/language_model.hpp>
#include <normplace/nn/parameter_list.hpp>
#include <normplace/placement/catalogue.hpp>
#include <normplace/text/language_model_batch.hpp>
#include <normplace/train/adam.hpp>
#include <normplace/train/schedule.hpp>
#include <normplace/train/training_loop.hpp>

#include "work.hpp"

namespace benchmarks {
namespace {

namespace np = normplace;

constexpr std::size_t bytes = 256;

void copy_ids(const np::IdTable& table, np::Tokens& tokens) {
    np::detail::reshape(tokens, {table.rows, table.columns});
    std::copy(table.ids.begin(), table.ids.end(), tokens.data());
}

std::vector<int> random_text(std::size_t count) {
    std::minstd_rand engine(1);
    std::vector<int> text(count);
    for (int& byte : text) byte = static_cast<int>(engine() % bytes);
    return text;
}

class Training {
public:
    explicit Training(const Sizes<6>& sizes)
        : batch_(sizes[0]),
          length_(sizes[1]),
          model_({.vocabulary = bytes,
                  .layers = sizes[5],
                  .width = sizes[2],
                  .heads = sizes[3],
                  .feed_forward = sizes[4],
                  .positions = length_}),
          text_(random_text(64 * batch_ * length_ + 1)) {
        np::RandomEngine random(1);
        model_.initialize(random);
        np::zero_gradients(model_, gradients_);
        const np::ParameterList<float> parameters = np::parameter_list(model_, gradients_);
        loop_ = std::make_unique<np::TrainingLoop<float>>(parameters, np::Adam<float>(parameters),
                                                          np::Schedule::constant(1e-4),
                                                          np::TrainingOptions{.clip_norm = 1.0});
    }

    void step() {
        const np::StepResult result = loop_->step([&](std::uint64_t number) {
            copy_batch(number);
            model_.forward(tokens_, logits_, cache_);
            const np::LossSum loss = np::cross_entropy_sum(logits_, targets_, logits_);
            model_.backward(logits_, cache_, gradients_);
            return loss;
        });
        if (result.diverged()) throw std::runtime_error(result.divergence);
    }

private:
    void copy_batch(std::uint64_t number) {
        if (number % 64 == 0) windows_ = np::window_batches(text_.size(), length_, batch_, 1, number / 64);
        const np::LanguageModelBatch batch = np::window_batch(text_, length_, windows_[number % 64]);
        copy_ids(batch.tokens, tokens_);
        copy_ids(batch.targets, targets_);
    }

    using Model = np::LanguageModel<np::PreLN, float>;
    std::size_t batch_, length_;
    Model model_;
    Model::Gradients gradients_;
    Model::Cache cache_;
    std::vector<int> text_;
    std::vector<np::Batch> windows_;
    std::unique_ptr<np::TrainingLoop<float>> loop_;
    np::Tokens tokens_, targets_;
    np::Activations<float> logits_;
};

/// The readout, the loss and their gradients.
class Loss {
public:
    explicit Loss(const Sizes<6>& sizes) : readout_(sizes[2], bytes, false) {
        np::detail::reshape(x_, {sizes[0], sizes[1], sizes[2]});
        np::detail::reshape(targets_, {sizes[0], sizes[1]});
        fill_random(x_.data(), x_.size());
        fill_random(readout_.weight.data(), readout_.weight.size());
        const std::vector<int> text = random_text(targets_.size());
        std::copy(text.begin(), text.end(), targets_.data());
    }
    void run() {
        np::zero_gradients(readout_, gradients_);
        readout_.forward(x_, none_, logits_);
        np::cross_entropy_sum(logits_, targets_, logits_);
        readout_.backward(x_, logits_, none_, dx_, gradients_, no_gradients_);
    }

private:
    np::Readout<float> readout_;
    np::Readout<float>::Gradients gradients_;
    np::Embedding<float> none_;
    np::Embedding<float>::Gradients no_gradients_;
    np::Activations<float> x_, logits_, dx_;
    np::Tokens targets_;
};

/// All layers and the final norm.
class Stack {
public:
    explicit Stack(const Sizes<6>& sizes)
        : encoder_(
              {.layers = sizes[5], .width = sizes[2], .heads = sizes[3], .feed_forward = sizes[4], .causal = true}) {
        np::RandomEngine random(1);
        encoder_.initialize(random);
        for (auto* tensor : {&x_, &dy_}) {
            np::detail::reshape(*tensor, {sizes[0], sizes[1], sizes[2]});
            fill_random(tensor->data(), tensor->size());
        }
    }
    void run() {
        np::zero_gradients(encoder_, gradients_);
        encoder_.forward(x_, y_, cache_);
        encoder_.backward(dy_, dx_, cache_, gradients_);
    }

private:
    using Encoder = np::Encoder<np::PreLN, float>;
    Encoder encoder_;
    Encoder::Gradients gradients_;
    Encoder::Cache cache_;
    np::Activations<float> x_, y_, dy_, dx_;
};

}  // namespace

Work training_step(const Sizes<6>& sizes) {
    return [training = std::make_shared<Training>(sizes)] { training->step(); };
}

Work training_layers(const Sizes<6>& sizes) {
    const auto [batch, length, width, heads, feed_forward, layers] = sizes;
    const Work layer = causal_pre_ln_step({batch, length, width, heads, feed_forward});
    return [layer, count = layers, loss = std::make_shared<Loss>(sizes)] {
        for (std::size_t l = 0; l < count; ++l) layer();
        loss->run();
    };
}

Work training_stack(const Sizes<6>& sizes) {
    return [stack = std::make_shared<Stack>(sizes), loss = std::make_shared<Loss>(sizes)] {
        stack->run();
        loss->run();
    };
}

}  // namespace benchmarks

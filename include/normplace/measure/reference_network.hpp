// SPDX-License-Identifier: BSD-3-Clause
//
// The reference model (analysis/reference_model.hpp) built from the real blocks, with all that a step of it needs:
// caches, gradients, activations. What is measured drives it: draws, forward, loss, backward, and whatever it does with
// the parameters between.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <normplace/analysis/estimator.hpp>
#include <normplace/analysis/reference_model.hpp>
#include <normplace/analysis/token_batch.hpp>
#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/embedding.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/nn/parameter_list.hpp>

namespace normplace::detail {

/// Whether a text's bytes are the model's tokens.
inline void require_byte_vocabulary(const char* who, const ReferenceModel& model) {
    require(model.vocabulary == 256, who, [&] {
        return "with a text the tokens are bytes, so the vocabulary is 256, not " + std::to_string(model.vocabulary);
    });
}
/// And whether there are enough of them.
inline void require_text(const char* who, const ReferenceModel& model, std::string_view text, std::size_t batches) {
    require_byte_vocabulary(who, model);
    byte_batch(text, model.batch, model.sequence, batches - 1);
}

/// EncoderOptions::branch_squares: those that are predicted, where learned factors start by laws that may ask for them.
inline std::vector<double> branch_squares(const AnyPlacement& placement, const ReferenceModel& model,
                                          const std::optional<std::string_view>& text, std::size_t seeds) {
    if (!syntax::has_gate_law(placement.formula)) return {};
    Estimator estimator(placement, model);
    if (!text) estimator.add(random_tokens(model, estimator.input_square()));
    else
        for (std::size_t batch = 0; batch < std::min<std::size_t>(seeds, 8); ++batch)
            estimator.add(
                given_tokens(byte_batch(*text, model.batch, model.sequence, batch), estimator.input_square()));
    return estimator.finish().branch_squares();
}

/// The next seed reuses its memory. One per thread.
template <class T>
class ReferenceNetwork {
public:
    using Stack = AnyEncoder<T, AnyNorm<T>>;

    /// @param with_tokens whether the input is a TokenBatch; otherwise it is Gaussian
    /// @param branch_squares EncoderOptions has them
    ReferenceNetwork(const AnyPlacement& placement, const ReferenceModel& model, bool with_tokens,
                     std::vector<double> branch_squares = {})
        : model_(model),
          embedding_gain_(placement.embedding_gain({.layers = model.layers})),
          encoder_(placement, {.layers = model.layers,
                               .width = model.width,
                               .heads = model.heads,
                               .feed_forward = model.feed_forward,
                               .causal = model.causal,
                               .bias = true,
                               .epsilon = model.epsilon,
                               .activation = model.activation,
                               .output_projection = model.output_projection,
                               .norm = model.norm,
                               .branch_squares = std::move(branch_squares)}),
          readout_(model.width, model.vocabulary, false) {
        if (with_tokens) embedding_.emplace(EmbeddingOptions{model.vocabulary, model.width, model.sequence});
        targets_.resize({model.batch, model.sequence});
        tokens_.resize({model.batch, model.sequence});
        x_.resize({model.batch, model.sequence, model.width});
        zero_gradients();
    }
    ReferenceNetwork(const ReferenceNetwork&) = delete;  // parameter lists point into it
    ReferenceNetwork& operator=(const ReferenceNetwork&) = delete;

    const ReferenceModel& model() const { return model_; }
    const Activations<T>& input() const { return x_; }
    const typename Stack::Gradients& gradients() const { return gradients_; }
    const typename Linear<T>::Gradients& readout_gradients() const { return readout_gradients_; }
    /// Null where the input is Gaussian.
    const typename Embedding<T>::Gradients* embedding_gradients() const {
        return embedding_ ? &embedding_gradients_ : nullptr;
    }

    /// The parameters on which the last hidden state depends: the stack's and the tables.
    ParameterList<T> stack_parameters() {
        ParameterList<T> list = parameter_list(encoder_, gradients_);
        if (embedding_)
            for (Parameter<T>& table : parameter_list(*embedding_, embedding_gradients_)) list.push_back(table);
        return list;
    }
    /// These and the readout.
    ParameterList<T> parameters() {
        ParameterList<T> list = stack_parameters();
        for (Parameter<T>& parameter : parameter_list(readout_, readout_gradients_)) {
            parameter.name = "readout." + parameter.name;
            list.push_back(parameter);
        }
        return list;
    }

    /// Draws all weights. What is drawn later for this seed continues from there.
    void draw_weights(std::uint64_t seed) {
        // Seeds that differ by 1 must not give engines that differ by little.
        random_.seed(0x9E3779B97F4A7C15ULL * (seed + 1));
        encoder_.initialize(random_, model_.initialization);
        readout_.initialize(Initializer(random_, Initialization::standard_deviation(
                                                     1.0 / std::sqrt(static_cast<double>(model_.width)))),
                            Role::readout);
        if (embedding_)
            embedding_->initialize(Initializer(
                random_, Initialization::standard_deviation(embedding_gain_ * std::sqrt(embedding_variance))));
    }

    /// Gaussian tokens with uniform targets, other ones at each call.
    void draw_batch() {
        fill_gaussian(x_.data(), x_.size(), static_cast<T>(embedding_gain_), random_);
        for (int& target : targets_.storage()) target = static_cast<int>(random_() % model_.vocabulary);
    }
    void read_batch(const TokenBatch& batch) {
        std::copy(batch.tokens.begin(), batch.tokens.end(), tokens_.data());
        std::copy(batch.targets.begin(), batch.targets.end(), targets_.data());
    }
    /// Every sequence from a place of its own in a text of at least S + 1 bytes.
    void draw_batch(std::string_view text) {
        const std::size_t length = model_.sequence;
        for (std::size_t b = 0; b < model_.batch; ++b) {
            const std::size_t begin = static_cast<std::size_t>(random_() % (text.size() - length));
            for (std::size_t i = 0; i < length; ++i) {
                tokens_(b, i) = static_cast<unsigned char>(text[begin + i]);
                targets_(b, i) = static_cast<unsigned char>(text[begin + i + 1]);
            }
        }
    }

    /// The last hidden state (B, S, D), behind the final norm where there is one. `observe(layer, kind, stream)` sees
    /// the residual stream as it leaves each block.
    template <class Observe>
    const Activations<T>& forward(const Observe& observe) {
        if (embedding_) embedding_->forward(tokens_, x_);
        encoder_.forward(x_, y_, cache_, {}, observe);
        return y_;
    }
    const Activations<T>& forward() {
        return forward([](std::size_t, SublayerKind, const Activations<T>&) {});
    }

    /// The loss of the last forward; what goes back is the gradient of its sum over this denominator.
    LossSum loss(double denominator) {
        readout_.forward(y_, logits_);
        return cross_entropy_sum(logits_, targets_, logits_, {.denominator = denominator});
    }
    std::size_t token_count() const { return targets_.size(); }

    void zero_gradients() {
        normplace::zero_gradients(encoder_, gradients_);
        normplace::zero_gradients(readout_, readout_gradients_);
        if (embedding_) normplace::zero_gradients(*embedding_, embedding_gradients_);
    }

    /// Adds to the gradients those of the last loss; returns the gradient at the stack's input.
    /// `observe(layer, kind, gradient)` sees it where the stream leaves each block.
    template <class Observe>
    const Activations<T>& backward(const Observe& observe) {
        readout_.backward(y_, logits_, dy_, readout_gradients_);
        encoder_.backward(dy_, dx_, cache_, gradients_, observe);
        if (embedding_) embedding_->backward(tokens_, dx_, embedding_gradients_);
        return dx_;
    }
    const Activations<T>& backward() {
        return backward([](std::size_t, SublayerKind, const Activations<T>&) {});
    }

private:
    ReferenceModel model_;
    double embedding_gain_;
    Stack encoder_;
    Linear<T> readout_;
    std::optional<Embedding<T>> embedding_;
    typename Stack::Cache cache_;
    typename Stack::Gradients gradients_;
    typename Linear<T>::Gradients readout_gradients_;
    typename Embedding<T>::Gradients embedding_gradients_;
    RandomEngine random_;
    Tokens tokens_, targets_;
    Activations<T> x_, y_, logits_, dy_, dx_;
};

}  // namespace normplace::detail

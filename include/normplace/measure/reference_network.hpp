// SPDX-License-Identifier: BSD-3-Clause
//
// The reference model (analysis/reference_model.hpp) built from the real blocks, and one seed of it measured: draw
// weights and data, run forward, loss and backward, and read off every gradient and the moments of the residual stream.
#pragma once

#include <optional>

#include <normplace/analysis/report.hpp>
#include <normplace/analysis/token_batch.hpp>
#include <normplace/measure/read_gradients.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/embedding.hpp>
#include <normplace/nn/encoder.hpp>

namespace normplace::detail {

/// Owns the model and everything that a step needs, so that the next seed reuses its memory. One per thread.
template <class P, class T, class N>
class ReferenceNetwork {
public:
    /// @param with_tokens whether the input is a TokenBatch; otherwise it is Gaussian
    ReferenceNetwork(const ReferenceModel& model, bool with_tokens)
        : model_(model),
          encoder_({.layers = model.layers,
                    .width = model.width,
                    .heads = model.heads,
                    .feed_forward = model.feed_forward,
                    .causal = model.causal,
                    .bias = true,
                    .epsilon = model.epsilon,
                    .activation = model.activation,
                    .output_projection = model.output_projection}),
          readout_(model.width, model.vocabulary, false) {
        if (with_tokens) embedding_.emplace(EmbeddingOptions{model.vocabulary, model.width, model.sequence});
        targets_.resize({model.batch, model.sequence});
        tokens_.resize({model.batch, model.sequence});
        x_.resize({model.batch, model.sequence, model.width});
    }

    /// One seed. Fills the report's gradient norms with *squared* Frobenius norms, so that they can be averaged.
    void measure(std::uint64_t seed, const TokenBatch* batch, GradientReport& squares) {
        // Seeds that differ by 1 must not give engines that differ by little.
        RandomEngine random(0x9E3779B97F4A7C15ULL * (seed + 1));
        encoder_.initialize(random, model_.initialization);
        readout_.initialize(
            Initializer(random, Initialization::standard_deviation(1.0 / std::sqrt(static_cast<double>(model_.width)))),
            Role::readout);
        draw_input(random, batch);
        forward(squares);
        backward(squares);
        read_gradients(squares);
    }

private:
    void draw_input(RandomEngine& random, const TokenBatch* batch) {
        if (embedding_) {
            std::copy(batch->tokens.begin(), batch->tokens.end(), tokens_.data());
            std::copy(batch->targets.begin(), batch->targets.end(), targets_.data());
            embedding_->initialize(
                Initializer(random, Initialization::standard_deviation(std::sqrt(embedding_variance))));
            embedding_->forward(tokens_, x_);
        } else {
            fill_gaussian(x_.data(), x_.size(), T(1), random);
            for (int& target : targets_.storage()) target = static_cast<int>(random() % model_.vocabulary);
        }
    }

    void forward(GradientReport& report) {
        read_stream(x_, report.input);
        encoder_.forward(x_, y_, cache_, {}, [&](std::size_t l, SublayerKind kind, const Activations<T>& stream) {
            read_stream(stream, block(report, l, kind).stream);
        });
        readout_.forward(y_, logits_);
        report.loss.value = cross_entropy(logits_, targets_, logits_);
    }

    void backward(GradientReport& report) {
        zero_gradients(encoder_, gradients_);
        zero_gradients(readout_, readout_gradients_);
        readout_.backward(y_, logits_, dy_, readout_gradients_);
        encoder_.backward(dy_, dx_, cache_, gradients_,
                          [&](std::size_t l, SublayerKind kind, const Activations<T>& gradient) {
                              block(report, l, kind).stream.gradient_second_moment.value = second_moment(gradient);
                          });
        report.input.gradient_second_moment.value = second_moment(dx_);
        if (!embedding_) return;
        zero_gradients(*embedding_, embedding_gradients_);
        embedding_->backward(tokens_, dx_, embedding_gradients_);
    }

    void read_gradients(GradientReport& report) const {
        for (std::size_t l = 0; l < model_.layers; ++l) {
            LayerReport& layer = report.layers[l];
            read_attention(gradients_.layers[l].attention, layer, layer.attention);
            read_feed_forward(gradients_.layers[l].feed_forward, layer);
        }
        if constexpr (P::final_norm) read_norm(gradients_.final_norm, report.final_norm);
        report.readout.norm = squared_norm(readout_gradients_.weight);
        if (!embedding_) return;
        report.token_embedding.norm = squared_norm(embedding_gradients_.token.weight);
        report.position_embedding.norm = squared_norm(embedding_gradients_.position.weight);
    }

    static SublayerReport& block(GradientReport& report, std::size_t layer, SublayerKind kind) {
        return kind == SublayerKind::attention ? report.layers[layer].attention : report.layers[layer].feed_forward;
    }

    ReferenceModel model_;
    Encoder<P, T, N> encoder_;
    Linear<T> readout_;
    std::optional<Embedding<T>> embedding_;
    typename Encoder<P, T, N>::Cache cache_;
    typename Encoder<P, T, N>::Gradients gradients_;
    typename Linear<T>::Gradients readout_gradients_;
    typename Embedding<T>::Gradients embedding_gradients_;
    Tokens tokens_, targets_;
    Activations<T> x_, y_, logits_, dy_, dx_;
};

}  // namespace normplace::detail

// SPDX-License-Identifier: BSD-3-Clause
//
// The reference model (analysis/reference_model.hpp) built from the real blocks, and one seed of it measured: draw
// weights and data, run forward, loss and backward, and read off every gradient and the moments of the residual stream.
#pragma once

#include <array>
#include <optional>

#include <normplace/analysis/report.hpp>
#include <normplace/analysis/token_batch.hpp>
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
        stream_moments(x_, report.input);
        encoder_.forward(x_, y_, cache_, {}, [&](std::size_t l, SublayerKind kind, const Activations<T>& stream) {
            stream_moments(stream, block(report, l, kind).stream);
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
            const auto& attention = gradients_.layers[l].attention;
            const auto& feed_forward = gradients_.layers[l].feed_forward;
            LayerReport& layer = report.layers[l];
            linear(attention.sublayer.query, layer.wq, layer.bq);
            linear(attention.sublayer.key, layer.wk, layer.bk);
            linear(attention.sublayer.value, layer.wv, layer.bv);
            if (model_.output_projection) linear(attention.sublayer.out, layer.wo, layer.bo);
            linear(feed_forward.sublayer.linear1, layer.w1, layer.b1);
            linear(feed_forward.sublayer.linear2, layer.w2, layer.b2);
            norms(attention.norms, layer.attention);
            norms(feed_forward.norms, layer.feed_forward);
        }
        if constexpr (P::final_norm) norm(gradients_.final_norm, report.final_norm);
        report.readout.norm = squared_norm(readout_gradients_.weight);
        if (!embedding_) return;
        report.token_embedding.norm = squared_norm(embedding_gradients_.token.weight);
        report.position_embedding.norm = squared_norm(embedding_gradients_.position.weight);
    }

    static SublayerReport& block(GradientReport& report, std::size_t layer, SublayerKind kind) {
        return kind == SublayerKind::attention ? report.layers[layer].attention : report.layers[layer].feed_forward;
    }
    static void linear(const typename Linear<T>::Gradients& gradients, GradientNorm& weight, GradientNorm& bias) {
        weight.norm = squared_norm(gradients.weight);
        bias.norm = squared_norm(gradients.bias);
    }
    static void norm(const typename N::Gradients& gradients, NormGradients& report) {
        report.gain.norm = squared_norm(gradients.gain);
        report.bias.norm = squared_norm(gradients.bias);
    }
    template <std::size_t count>
    static void norms(const std::array<typename N::Gradients, count>& gradients, SublayerReport& report) {
        for (std::size_t i = 0; i < count; ++i) norm(gradients[i], report.norms[i]);
    }

    template <class Tensor>
    static double squared_norm(const Tensor& tensor) {
        double sum = 0.0;
        for (const T entry : tensor.storage()) sum += static_cast<double>(entry) * static_cast<double>(entry);
        return sum;
    }
    static double second_moment(const Activations<T>& x) { return squared_norm(x) / static_cast<double>(x.size()); }

    /// The sum over pairs of different tokens is |sum of x_i|^2 - sum of |x_i|^2, so it costs no more than the norms.
    void stream_moments(const Activations<T>& x, StreamMoments& moments) {
        const std::size_t n = model_.sequence, d = model_.width;
        sum_.resize(d);
        double squares = 0.0, pairs = 0.0;
        for (std::size_t b = 0; b < model_.batch; ++b) {
            std::fill(sum_.begin(), sum_.end(), 0.0);
            double own = 0.0;
            for (std::size_t i = 0; i < n; ++i) {
                const T* row = x.data() + (b * n + i) * d;
                for (std::size_t j = 0; j < d; ++j) {
                    const double entry = static_cast<double>(row[j]);
                    sum_[j] += entry;
                    own += entry * entry;
                }
            }
            squares += own;
            for (const double entry : sum_) pairs += entry * entry;
            pairs -= own;
        }
        moments.second_moment.value = squares / static_cast<double>(x.size());
        if (n > 1) moments.token_correlation.value = pairs / (static_cast<double>(n - 1) * squares);
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
    std::vector<double> sum_;
};

}  // namespace normplace::detail

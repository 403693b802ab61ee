// SPDX-License-Identifier: BSD-3-Clause
//
// The measured report of an encoder-decoder Transformer: what `predict_encoder_decoder` says, read off the real stacks
// over many seeds.
//
//     EncoderDecoderReport measured = measure_encoder_decoder<PreLN, PreLN>({}, {.seeds = 32});
//     measured.decoder.layers.back().w2.norm             // sqrt(mean over seeds of ||dLoss/dW_2||_F^2)
//     measured.decoder.layers.back().w2.standard_error
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/analysis/encoder_decoder_report.hpp>
#include <normplace/measure/read_gradients.hpp>
#include <normplace/measure/seeds.hpp>
#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/decoder.hpp>
#include <normplace/nn/encoder.hpp>

namespace normplace {

struct MeasureEncoderDecoderOptions {
    std::size_t seeds = 8;  ///< the standard error falls as 1/sqrt(seeds); one seed has none (NaN)
    std::function<void(std::size_t done, std::size_t total)>
        progress{};           ///< called after each seed, one call at a time
    std::size_t threads = 0;  ///< 0: as many as OpenMP would use
};

namespace detail {

/// Owns the model and everything that a step needs, so that the next seed reuses its memory. One per thread.
template <class T>
class EncoderDecoderNetwork {
public:
    /// @param predicted whose branches' second moments learned factors may start by
    EncoderDecoderNetwork(const AnyPlacement& encoder, const AnyPlacement& decoder, const EncoderDecoderModel& model,
                          const EncoderDecoderReport& predicted)
        : model_(model),
          source_gain_(encoder.embedding_gain(
              {.layers = model.encoder_layers, .stack = StackKind::encoder, .other_layers = model.decoder_layers})),
          target_gain_(decoder.embedding_gain(
              {.layers = model.decoder_layers, .stack = StackKind::decoder, .other_layers = model.encoder_layers})),
          encoder_(encoder, {.layers = model.encoder_layers,
                             .width = model.width,
                             .heads = model.heads,
                             .feed_forward = model.feed_forward,
                             .epsilon = model.epsilon,
                             .activation = model.activation,
                             .norm = model.norm,
                             .decoder_layers = model.decoder_layers,
                             .branch_squares = predicted.encoder.branch_squares()}),
          decoder_(decoder, {.layers = model.decoder_layers,
                             .width = model.width,
                             .heads = model.heads,
                             .feed_forward = model.feed_forward,
                             .epsilon = model.epsilon,
                             .activation = model.activation,
                             .norm = model.norm,
                             .encoder_layers = model.encoder_layers,
                             .branch_squares = predicted.decoder.branch_squares()}),
          readout_(model.width, model.vocabulary, false) {
        source_.resize({model.batch, model.source, model.width});
        target_.resize({model.batch, model.target, model.width});
        targets_.resize({model.batch, model.target});
    }

    /// One seed. Fills the report's gradient norms with *squared* Frobenius norms, so that they can be averaged.
    void measure(std::uint64_t seed, EncoderDecoderReport& squares) {
        // Seeds that differ by 1 must not give engines that differ by little.
        RandomEngine random(0x9E3779B97F4A7C15ULL * (seed + 1));
        encoder_.initialize(random, model_.initialization);
        decoder_.initialize(random, model_.initialization);
        readout_.initialize(
            Initializer(random, Initialization::standard_deviation(1.0 / std::sqrt(static_cast<double>(model_.width)))),
            Role::readout);
        fill_gaussian(source_.data(), source_.size(), static_cast<T>(source_gain_), random);
        fill_gaussian(target_.data(), target_.size(), static_cast<T>(target_gain_), random);
        for (int& target : targets_.storage()) target = static_cast<int>(random() % model_.vocabulary);
        forward(squares);
        backward(squares);
        read_gradients(squares);
    }

private:
    void forward(EncoderDecoderReport& report) {
        read_stream(source_, report.encoder.input);
        encoder_.forward(source_, memory_, encoder_cache_, {},
                         [&](std::size_t l, SublayerKind kind, const Activations<T>& stream) {
                             read_stream(stream, block(report.encoder.layers[l], kind).stream);
                         });
        read_stream(memory_, report.memory);
        read_stream(target_, report.decoder.input);
        decoder_.forward(target_, y_, decoder_cache_, Memory<T>{memory_, no_padding_},
                         [&](std::size_t l, SublayerKind kind, const Activations<T>& stream) {
                             read_stream(stream, block(report.decoder.layers[l], kind).stream);
                         });
        readout_.forward(y_, logits_);
        report.loss.value = cross_entropy(logits_, targets_, logits_);
    }

    void backward(EncoderDecoderReport& report) {
        zero_gradients(encoder_, encoder_gradients_);
        zero_gradients(decoder_, decoder_gradients_);
        zero_gradients(readout_, readout_gradients_);
        readout_.backward(y_, logits_, dy_, readout_gradients_);
        decoder_.backward(dy_, dx_, dmemory_, decoder_cache_, decoder_gradients_,
                          [&](std::size_t l, SublayerKind kind, const Activations<T>& gradient) {
                              block(report.decoder.layers[l], kind).stream.gradient_second_moment.value =
                                  second_moment(gradient);
                          });
        report.decoder.input.gradient_second_moment.value = second_moment(dx_);
        report.memory.gradient_second_moment.value = second_moment(dmemory_);
        encoder_.backward(dmemory_, dx_, encoder_cache_, encoder_gradients_,
                          [&](std::size_t l, SublayerKind kind, const Activations<T>& gradient) {
                              block(report.encoder.layers[l], kind).stream.gradient_second_moment.value =
                                  second_moment(gradient);
                          });
        report.encoder.input.gradient_second_moment.value = second_moment(dx_);
    }

    void read_gradients(EncoderDecoderReport& report) const {
        for (std::size_t l = 0; l < model_.encoder_layers; ++l) {
            const auto& layer = encoder_gradients_.layers[l];
            LayerReport& to = report.encoder.layers[l];
            read_attention(layer.attention, to, to.attention);
            read_feed_forward(layer.feed_forward, to);
        }
        for (std::size_t l = 0; l < model_.decoder_layers; ++l) {
            const auto& layer = decoder_gradients_.layers[l];
            DecoderLayerReport& to = report.decoder.layers[l];
            read_attention(layer.self_attention, to, to.attention);
            read_attention(layer.cross_attention, to.cross_attention, to.cross_attention);
            read_feed_forward(layer.feed_forward, to);
        }
        for (const auto& norm : encoder_gradients_.output.norms) read_norm(norm, report.encoder.final_norm);
        for (const auto& norm : decoder_gradients_.output.norms) read_norm(norm, report.decoder.final_norm);
        report.readout.norm = squared_norm(readout_gradients_.weight);
    }

    static SublayerReport& block(LayerReport& layer, SublayerKind kind) {
        return kind == SublayerKind::attention ? layer.attention : layer.feed_forward;
    }
    static SublayerReport& block(DecoderLayerReport& layer, SublayerKind kind) {
        if (kind == SublayerKind::cross_attention) return layer.cross_attention;
        return block(static_cast<LayerReport&>(layer), kind);
    }

    EncoderDecoderModel model_;
    double source_gain_, target_gain_;
    AnyEncoder<T, AnyNorm<T>> encoder_;
    AnyDecoder<T, AnyNorm<T>> decoder_;
    Linear<T> readout_;
    typename AnyEncoder<T, AnyNorm<T>>::Cache encoder_cache_;
    typename AnyDecoder<T, AnyNorm<T>>::Cache decoder_cache_;
    typename AnyEncoder<T, AnyNorm<T>>::Gradients encoder_gradients_;
    typename AnyDecoder<T, AnyNorm<T>>::Gradients decoder_gradients_;
    typename Linear<T>::Gradients readout_gradients_;
    Tokens targets_;
    KeyPaddingMask no_padding_;
    Activations<T> source_, memory_, target_, y_, logits_, dy_, dx_, dmemory_;
};

template <class T>
EncoderDecoderReport measure_encoder_decoder(const AnyPlacement& encoder, const AnyPlacement& decoder,
                                             const EncoderDecoderModel& model,
                                             const MeasureEncoderDecoderOptions& options) {
    EncoderDecoderReport report = empty_report(encoder, decoder, model);
    std::vector<EncoderDecoderReport> seeds(options.seeds, report);
    using Network = EncoderDecoderNetwork<T>;
    EncoderDecoderReport predicted;
    if (syntax::has_gate_law(encoder.formula) || syntax::has_gate_law(decoder.formula))
        predicted = normplace::predict_encoder_decoder(encoder, decoder, model);
    for_each_seed(
        options, [&] { return std::make_unique<Network>(encoder, decoder, model, predicted); },
        [&](std::size_t seed, Network& network) { network.measure(seed, seeds[seed]); });
    average_seeds(seeds, report);
    return report;
}

}  // namespace detail

/// Measures the gradients of the encoder-decoder model at initialization, with placement PE in the encoder and PD in
/// the decoder, in scalar T, over `options.seeds` seeds. Seed s always draws the same weights and data, whatever the
/// number of seeds and threads.
/// @throws std::invalid_argument when the model does not fit or seeds is 0
template <class T = float>
EncoderDecoderReport measure_encoder_decoder(const AnyPlacement& encoder, const AnyPlacement& decoder,
                                             const EncoderDecoderModel& model,
                                             const MeasureEncoderDecoderOptions& options = {}) {
    model.check();
    detail::require_positive("measure_encoder_decoder", "seeds", options.seeds);
    return detail::measure_encoder_decoder<T>(encoder, decoder, model, options);
}
template <class PE, class PD, class T = float>
EncoderDecoderReport measure_encoder_decoder(const EncoderDecoderModel& model,
                                             const MeasureEncoderDecoderOptions& options = {}) {
    static_assert(explain_placement<PE>() && explain_placement<PD>());
    return measure_encoder_decoder<T>(any_placement<PE>, any_placement<PD>, model, options);
}

}  // namespace normplace

// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder-decoder Transformer of which predictions and measurements speak, at initialization, and what they say of
// it: the gradient norm of every parameter of both stacks.
#pragma once

#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <normplace/analysis/reference_model.hpp>
#include <normplace/analysis/report.hpp>

namespace normplace {

/// An encoder of layers {self-attention, feed-forward} reads the source; a decoder of layers {causal self-attention,
/// cross-attention to the encoder's output, feed-forward} reads the target. Each stack has its own placement, and a
/// final norm where that says so. Source and target tokens are x0 ~ N(0, I_D), independent, with uniform targets;
/// readout, loss, weights and biases are those of ReferenceModel.
struct EncoderDecoderModel {
    std::size_t encoder_layers = 6, decoder_layers = 6;
    std::size_t width = 256;               ///< D
    std::size_t heads = 4;                 ///< H
    std::size_t feed_forward = 1024;       ///< F
    std::size_t source = 32;               ///< M, tokens of a source sequence
    std::size_t target = 32;               ///< S, tokens of a target sequence
    std::size_t batch = 4;                 ///< B
    std::size_t vocabulary = 1000;         ///< V
    NormKind norm = NormKind::layer_norm;  ///< where the placement has none of its own
    double epsilon = 1e-5;                 ///< inside the norm's square root
    Activation activation = relu;
    Initialization initialization = Initialization::xavier();

    /// One of the two stacks by itself.
    ReferenceModel encoder() const { return stack(encoder_layers, source, false); }
    ReferenceModel decoder() const { return stack(decoder_layers, target, true); }

    /// @throws std::invalid_argument when a size is 0, or as ReferenceModel::check for one of the stacks
    void check() const {
        for (const auto& [what, value] : {std::pair{"encoder_layers", encoder_layers},
                                          {"decoder_layers", decoder_layers},
                                          {"source", source},
                                          {"target", target}})
            if (value == 0)
                throw std::invalid_argument(std::string("EncoderDecoderModel: ") + what + " is 0, expected at least 1");
        encoder().check();
        decoder().check();
    }

private:
    ReferenceModel stack(std::size_t layers, std::size_t sequence, bool causal) const {
        return {.layers = layers,
                .width = width,
                .heads = heads,
                .feed_forward = feed_forward,
                .sequence = sequence,
                .batch = batch,
                .vocabulary = vocabulary,
                .causal = causal,
                .norm = norm,
                .epsilon = epsilon,
                .activation = activation,
                .initialization = initialization};
    }
};

/// What LayerReport holds is the self-attention's and the feed-forward's.
struct DecoderLayerReport : LayerReport {
    CrossAttentionReport cross_attention;
};

template <class Layer>
struct StackReport {
    std::string placement, formula;
    StreamMoments input;
    std::vector<Layer> layers;
    NormGradients final_norm;

    /// E f(x)^2 of every sublayer, in their order: EncoderOptions::branch_squares and DecoderOptions'.
    std::vector<double> branch_squares() const {
        std::vector<double> all;
        for (const Layer& layer : layers) {
            all.push_back(layer.attention.branch_square);
            if constexpr (requires { layer.cross_attention; }) all.push_back(layer.cross_attention.branch_square);
            all.push_back(layer.feed_forward.branch_square);
        }
        return all;
    }
};

struct EncoderDecoderReport {
    EncoderDecoderModel model;
    std::size_t seeds = 0;  ///< 0: predicted
    StackReport<LayerReport> encoder;
    StreamMoments memory;  ///< what cross-attention reads: the encoder's output, after its final norm
    StackReport<DecoderLayerReport> decoder;
    GradientNorm readout;
    Moment loss;
    std::vector<std::string> warnings;  ///< where the theory leaves the range in which it holds
};

/// A report of the form that the two placements give it, whose every number is not available.
inline EncoderDecoderReport empty_report(const AnyPlacement& encoder, const AnyPlacement& decoder,
                                         const EncoderDecoderModel& model) {
    EncoderDecoderReport report;
    report.model = model;
    const auto take = [](auto& stack, GradientReport form) {
        stack.placement = form.placement;
        stack.formula = form.formula;
        stack.final_norm = form.final_norm;
        for (const LayerReport& layer : form.layers) static_cast<LayerReport&>(stack.layers.emplace_back()) = layer;
    };
    take(report.encoder, empty_report(encoder, model.encoder()));
    take(report.decoder, empty_report(decoder, model.decoder()));
    std::size_t l = 0;
    for (DecoderLayerReport& layer : report.decoder.layers)
        detail::name_parameters(decoder, {++l, model.decoder_layers, SublayerKind::cross_attention},
                                layer.cross_attention);
    return report;
}

/// As for a GradientReport, in both stacks: `encoder.layers.3.attention.query.weight`,
/// `decoder.layers.3.cross_attention.query.weight`.
template <class Report, class Function>
requires std::same_as<std::remove_const_t<Report>, EncoderDecoderReport>
void for_each_entry(Report& report, Function&& function) {
    function("loss", report.loss);
    detail::for_each_stream_entry("encoder.input", report.encoder.input, function);
    for (std::size_t l = 0; l < report.encoder.layers.size(); ++l) {
        auto& layer = report.encoder.layers[l];
        const std::string prefix = "encoder.layers." + std::to_string(l) + ".";
        detail::for_each_attention_entry(prefix + "attention.", layer, layer.attention, function);
        detail::for_each_feed_forward_entry(prefix + "feed_forward.", layer, function);
    }
    detail::for_each_norm_entry("encoder.final_norm", report.encoder.final_norm, function);
    detail::for_each_stream_entry("memory", report.memory, function);
    detail::for_each_stream_entry("decoder.input", report.decoder.input, function);
    for (std::size_t l = 0; l < report.decoder.layers.size(); ++l) {
        auto& layer = report.decoder.layers[l];
        const std::string prefix = "decoder.layers." + std::to_string(l) + ".";
        detail::for_each_attention_entry(prefix + "self_attention.", layer, layer.attention, function);
        detail::for_each_attention_entry(prefix + "cross_attention.", layer.cross_attention, layer.cross_attention,
                                         function);
        detail::for_each_feed_forward_entry(prefix + "feed_forward.", layer, function);
    }
    detail::for_each_norm_entry("decoder.final_norm", report.decoder.final_norm, function);
    function("readout.weight", report.readout);
}

}  // namespace normplace

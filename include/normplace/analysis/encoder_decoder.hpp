// SPDX-License-Identifier: BSD-3-Clause
//
// The gradient norm of every parameter of an encoder-decoder Transformer at initialization, before anything is built,
// for any placement of either stack: what Xiong et al. 2020, arXiv:2002.04745, measure in their Figure 3.
//
//     EncoderDecoderReport report = predict_encoder_decoder<PreLN, PreLN>({.encoder_layers = 6, .decoder_layers = 6});
//     double last = report.decoder.layers.back().w2.norm;
//
// Beside what `predict` leaves out at finite width, this neglects that the gradient which a pair of the memory's tokens
// gets fluctuates along with that pair's covariance: keys that happen to be alike are attended alike. It is of order
// M/D and reaches the encoder's first layers. What is left also grows with the number of sublayers through which a norm
// of the sum passes gradients of aligned tokens. Measured at 6-6, Xavier, F = 4D, B 4, M = S = 32: W_v, W_o, W_1 and
// W_2 are within 5 % at D = 256 (Post-LN 6 %); at D = 128 Peri-LN and DeepNorm too, Pre-LN within 6 %, and Post-LN's
// decoder up to 9 % low. W_q and W_k are within 12 % (Post-LN: up to 21 % low at D = 128, 15 % at D = 256), since they
// feel the smallest error in how alike tokens have become.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/cross_attention_moments.hpp>
#include <normplace/analysis/encoder_decoder_report.hpp>
#include <normplace/analysis/loss_moments.hpp>
#include <normplace/analysis/stack_moments.hpp>

namespace normplace {

namespace detail {

class EncoderMemory final : public AnyMemory {
public:
    explicit EncoderMemory(MemoryMoments memory)
        : AnyMemory(memory.layout.sequence(), token_differences(memory.layout, memory.kernel)),
          moments(std::move(memory)) {}
    std::unique_ptr<AnyAttentionMoments> attention(const TokenLayout& queries, const AttentionScales& scales,
                                                   SoftmaxTable& softmax) override {
        return std::make_unique<CrossAttentionMoments>(queries, moments, scales, softmax);
    }
    MemoryMoments moments;
};

template <class Layer>
void finish(StackReport<Layer>& stack, ReportSums& sums) {
    sums.finish(stack.input);
    for (Layer& layer : stack.layers) {
        sums.finish(static_cast<LayerReport&>(layer));
        if constexpr (requires { layer.cross_attention; }) sums.finish(layer.cross_attention);
    }
    sums.finish(stack.final_norm);
}

inline EncoderDecoderReport predict_encoder_decoder(const AnyPlacement& encoder_placement,
                                                    const AnyPlacement& decoder_placement,
                                                    const EncoderDecoderModel& model) {
    EncoderDecoderReport report = empty_report(encoder_placement, decoder_placement, model);
    const double width = static_cast<double>(model.width);
    const ReferenceModel encoder_model = with_own_norm(encoder_placement, model.encoder()),
                         decoder_model = with_own_norm(decoder_placement, model.decoder());
    const NormMoments encoder_norm(encoder_model.norm, width, model.epsilon),
        decoder_norm(decoder_model.norm, width, model.epsilon);
    const auto square = [](double gain) { return gain * gain; };
    const auto last_of = [](Depth place) {
        place.layer = place.layers;
        return place;
    };
    const Depth encoder_place{
        .layers = model.encoder_layers, .stack = StackKind::encoder, .other_layers = model.decoder_layers},
        decoder_place{
            .layers = model.decoder_layers, .stack = StackKind::decoder, .other_layers = model.encoder_layers};
    const PredictionInput source =
                              random_tokens(encoder_model, square(encoder_placement.embedding_gain(encoder_place))),
                          target =
                              random_tokens(decoder_model, square(decoder_placement.embedding_gain(decoder_place)));
    std::vector<ReportedLayer> encoder_layers, decoder_layers;
    for (LayerReport& layer : report.encoder.layers) encoder_layers.push_back({&layer});
    for (DecoderLayerReport& layer : report.decoder.layers) decoder_layers.push_back({&layer, &layer.cross_attention});
    ActivationKernel kernel(model.activation);
    SoftmaxTable softmax;
    ScoreRange encoder_scores(model.source), decoder_scores(model.target);
    ReportSums sums;
    sums.next_input();

    StackMoments encoder(encoder_placement, encoder_model, kernel, softmax, encoder_place);
    sums.add(report.encoder.input, source.layout, source.stream);
    encoder.forward(source.layout, source.stream, encoder_layers, encoder_scores, sums);
    OutputMoments encoder_output(encoder_placement, source.layout, width, encoder_norm, false, last_of(encoder_place));
    StreamFluctuations fluctuations = encoder.output_fluctuations();
    TokenKernel encoded = encoder_output.forward(encoder.output(), fluctuations);
    sums.add(report.memory, source.layout, encoded);
    EncoderMemory memory({source.layout, std::move(encoded), fluctuations[0]});

    StackMoments decoder(decoder_placement, decoder_model, kernel, softmax, decoder_place, &memory);
    sums.add(report.decoder.input, target.layout, target.stream);
    decoder.forward(target.layout, target.stream, decoder_layers, decoder_scores, sums);

    OutputMoments decoder_output(decoder_placement, target.layout, width, decoder_norm, true, last_of(decoder_place));
    fluctuations = decoder.output_fluctuations();
    const TokenKernel last = decoder_output.forward(decoder.output(), fluctuations);
    LossMoments loss = loss_moments(target, decoder_model, last, decoder_output.ends_in_norm(), softmax);
    sums.add(report.loss, loss.loss);
    sums.add(report.readout, loss.readout);
    if (decoder_output.ends_in_norm()) sums.add(report.decoder.final_norm, decoder_norm.own(loss.final_norm));
    else if (!decoder.ends_in_norm())
        sums.judge(report.readout,
                   sums.path.pass_loss(leaning_share(target.layout, loss), decoder_scores.largest_excess()));
    StreamKernels gradient = decoder_output.backward(std::move(loss.gradient));
    if (!decoder_output.norms().empty())
        sums.add(
            report.decoder.final_norm,
            sum_of(decoder_output.norms()[0], decoder_norm.own(decoder_output.at_final_norm(loss.lean, loss.hidden))));

    sums.add_gradient(report.decoder.input, target.layout,
                      decoder.backward(target.layout, std::move(gradient), decoder_layers,
                                       decoder_output.at_first_stream(loss.lean, loss.hidden, decoder.output()),
                                       decoder_scores, sums));
    sums.add_gradient(report.memory, source.layout, memory.moments.gradient);
    gradient = encoder_output.backward(memory.moments.gradient);
    if (!encoder_output.norms().empty()) sums.add(report.encoder.final_norm, encoder_output.norms()[0]);
    sums.add_gradient(
        report.encoder.input, source.layout,
        encoder.backward(source.layout, std::move(gradient), encoder_layers, NormSquares{}, encoder_scores, sums));

    finish(report.encoder, sums);
    sums.finish(report.memory);
    finish(report.decoder, sums);
    sums.finish(report.readout);
    sums.finish(report.loss);
    if (sums.overflow())
        report.warnings.push_back(
            "a second moment left the range of double precision: a residual stream or its gradient grows without bound "
            "over " +
            std::to_string(model.encoder_layers) + " and " + std::to_string(model.decoder_layers) +
            " layers; the numbers behind that point are inf or NaN");
    encoder_scores.warn("the encoder's attention", report.warnings);
    decoder_scores.warn("the decoder's self-attention", report.warnings);
    memory.scores.warn("the decoder's cross-attention", report.warnings);
    sums.conclude(report);
    return report;
}

}  // namespace detail

/// The prediction for random tokens. O(L S^2).
/// @throws std::invalid_argument when the model's sizes do not fit (EncoderDecoderModel::check)
inline EncoderDecoderReport predict_encoder_decoder(const AnyPlacement& encoder, const AnyPlacement& decoder,
                                                    const EncoderDecoderModel& model) {
    model.check();
    return detail::predict_encoder_decoder(encoder, decoder, model);
}
/// PE is the encoder's placement and PD the decoder's.
template <class PE, class PD>
EncoderDecoderReport predict_encoder_decoder(const EncoderDecoderModel& model) {
    static_assert(explain_placement<PE>() && explain_placement<PD>());
    return predict_encoder_decoder(any_placement<PE>, any_placement<PD>, model);
}

}  // namespace normplace

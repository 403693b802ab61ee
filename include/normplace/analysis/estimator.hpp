// SPDX-License-Identifier: BSD-3-Clause
//
// The estimator behind `predict`: through the stack with a placement's formula (moments.hpp), forward with the
// covariances of activations between tokens, backward with those of gradients, and into a report.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/moments.hpp>
#include <normplace/analysis/prediction_input.hpp>
#include <normplace/analysis/report.hpp>
#include <normplace/analysis/sublayer_moments.hpp>
#include <normplace/placement/placement.hpp>
#include <normplace/placement/print.hpp>

namespace normplace::detail {

/// function(GradientNorm&) for every gradient of a report.
template <class Function>
void for_each_gradient(GradientReport& report, Function&& function) {
    const auto norm = [&](NormGradients& n) { function(n.gain), function(n.bias); };
    for (LayerReport& l : report.layers) {
        for (GradientNorm* g : {&l.wq, &l.wk, &l.wv, &l.wo, &l.w1, &l.w2, &l.bq, &l.bk, &l.bv, &l.bo, &l.b1, &l.b2})
            function(*g);
        for (NormGradients& n : l.attention.norms) norm(n);
        for (NormGradients& n : l.feed_forward.norms) norm(n);
    }
    norm(report.final_norm);
    function(report.readout);
    function(report.token_embedding);
    function(report.position_embedding);
}

inline std::string rounded(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

/// The prediction for one input after another, summed into a report: squares of norms, until `finish` takes the roots.
template <Placement P>
class Estimator {
    static constexpr auto slot_names = syntax::slots(P::formula);
    static constexpr bool ends_in_norm = requires { decltype(P::formula)::slot; };

public:
    explicit Estimator(const ReferenceModel& model)
        : model_(model), kernel_(model.activation), report_(empty_report<P>(model)) {}

    void add(const PredictionInput& input) {
        ++inputs_;
        const TokenLayout& layout = input.layout;
        // Only what enters each block is kept; backward runs the block forward once more.
        std::vector<TokenKernel> streams{input.stream};
        streams.reserve(2 * model_.layers + 1);
        std::vector<Fluctuation> fluctuations{
            {0.0, 1.0 / static_cast<double>(model_.width), 2.0 / static_cast<double>(model_.width), 0.0}};
        const auto forward = [&](auto& block) {
            fluctuations.push_back(fluctuations.back());
            streams.push_back(block.forward(streams.back(), fluctuations.back()));
        };
        const auto forward_again = [&](auto& block) {
            streams.pop_back();
            fluctuations.pop_back();
            block.prepare(streams.back(), fluctuations.back());
        };
        add_stream(report_.input, layout, streams.back());
        for (std::size_t l = 1; l <= model_.layers; ++l) {
            LayerReport& layer = report_.layers[l - 1];
            with_attention(layout, l, [&](auto& block, AttentionMoments& attention) {
                forward(block);
                check_scores(attention.score_variance(), l);
            });
            add_stream(layer.attention.stream, layout, streams.back());
            with_feed_forward(layout, l, [&](auto& block, FeedForwardMoments&) { forward(block); });
            add_stream(layer.feed_forward.stream, layout, streams.back());
        }

        NormSquares last_norm;
        TokenKernel gradient = add_loss(input, streams.back(), last_norm);
        for (std::size_t l = model_.layers; l >= 1; --l) {
            LayerReport& layer = report_.layers[l - 1];
            add_value(layer.feed_forward.stream.gradient_second_moment, layout.trace(gradient) / layout.tokens());
            with_feed_forward(layout, l, [&](auto& block, FeedForwardMoments& feed_forward) {
                forward_again(block);
                gradient = block.backward(gradient);
                if constexpr (ends_in_norm)
                    if (l == model_.layers && !P::final_norm) {
                        NormSquares& norm = block.norms[syntax::slot_index(slot_names, decltype(P::formula)::slot)];
                        norm.gain += last_norm.gain;
                        norm.bias += last_norm.bias;
                    }
                add_norms(layer.feed_forward, block.norms);
                const FeedForwardSquares& s = feed_forward.squares;
                add_square(layer.w1, s.w1), add_square(layer.w2, s.w2);
                add_square(layer.b1, s.b1), add_square(layer.b2, s.b2);
            });
            add_value(layer.attention.stream.gradient_second_moment, layout.trace(gradient) / layout.tokens());
            with_attention(layout, l, [&](auto& block, AttentionMoments& attention) {
                forward_again(block);
                gradient = block.backward(gradient);
                add_norms(layer.attention, block.norms);
                AttentionSquares& s = attention.squares;
                if (scores_too_large(attention.score_variance())) s.wq = s.wk = s.bq = not_available;
                add_square(layer.wq, s.wq), add_square(layer.wk, s.wk), add_square(layer.wv, s.wv);
                add_square(layer.bq, s.bq), add_square(layer.bk, 0.0), add_square(layer.bv, s.bv);
                if (model_.output_projection) add_square(layer.wo, s.wo), add_square(layer.bo, s.bo);
            });
        }
        add_value(report_.input.gradient_second_moment, layout.trace(gradient) / layout.tokens());
        if (input.batch) add_embeddings(*input.batch, layout, gradient);
    }

    GradientReport finish() {
        bool overflow = false;
        for_each_gradient(report_, [&](GradientNorm& g) {
            overflow = overflow || std::isinf(g.norm);
            g.norm = std::sqrt(g.norm / inputs_);
        });
        const auto stream = [&](StreamMoments& s) {
            for (Moment* m : {&s.second_moment, &s.token_correlation, &s.gradient_second_moment}) {
                m->value /= inputs_;
                overflow = overflow || !std::isfinite(m->value);
            }
        };
        stream(report_.input);
        for (LayerReport& layer : report_.layers) stream(layer.attention.stream), stream(layer.feed_forward.stream);
        report_.loss.value /= inputs_;
        if (overflow)
            report_.warnings.push_back(
                "a second moment left the range of double precision: the residual stream or its gradient grows without "
                "bound over " +
                std::to_string(model_.layers) + " layers; the numbers behind that point are inf or NaN");
        if (first_affected_ != 0)
            report_.warnings.push_back("the attention scores' variance reaches " + rounded(largest_scores_) +
                                       ", above 2 ln n = " + rounded(score_limit()) +
                                       " (n = " + std::to_string(model_.sequence) +
                                       "), where attention settles on single tokens: W_q and W_k have no prediction in "
                                       "such layers (the first is "
                                       "layer " +
                                       std::to_string(first_affected_) +
                                       "), and gradients at and below it are less certain, the further below the less");
        return std::move(report_);
    }

private:
    double scale(Role role, std::size_t fan_in, std::size_t fan_out, const Depth& depth) const {
        const double gain = initial_gain<P>(role, depth);
        return static_cast<double>(fan_in) * model_.initialization.variance(role, fan_in, fan_out, depth) * gain * gain;
    }

    template <class Use>
    void with_attention(const TokenLayout& layout, std::size_t layer, Use&& use) {
        const Depth depth{layer, model_.layers, SublayerKind::attention};
        const std::size_t d = model_.width;
        AttentionScales scales{.width = static_cast<double>(d),
                               .query = scale(Role::query, d, d, depth),
                               .key = scale(Role::key, d, d, depth),
                               .value = scale(Role::value, d, d, depth),
                               .out = model_.output_projection ? scale(Role::out, d, d, depth) : 1.0,
                               .output_projection = model_.output_projection,
                               .causal = model_.causal};
        AttentionMoments attention(layout, scales, softmax_);
        BlockMoments<P, AttentionMoments> block(layout, scales.width, model_.epsilon, depth, attention);
        use(block, attention);
    }
    template <class Use>
    void with_feed_forward(const TokenLayout& layout, std::size_t layer, Use&& use) {
        const Depth depth{layer, model_.layers, SublayerKind::feed_forward};
        const FeedForwardScales scales{.width = static_cast<double>(model_.width),
                                       .feed_forward = static_cast<double>(model_.feed_forward),
                                       .linear1 = scale(Role::linear1, model_.width, model_.feed_forward, depth),
                                       .linear2 = scale(Role::linear2, model_.feed_forward, model_.width, depth)};
        FeedForwardMoments feed_forward(layout, scales, kernel_);
        BlockMoments<P, FeedForwardMoments> block(layout, scales.width, model_.epsilon, depth, feed_forward);
        use(block, feed_forward);
    }

    // The final norm, the readout with variance 1/D, and the mean cross-entropy. With p the model's prediction, a
    // softmax of V independent logits: E (p_i - y_i).(p_j - y_j) = [y_i = y_j] - 2/V + E p_i.p_j.
    //
    // The prediction leans on the readout that made it: E p_v u_v = (1 - m2)/D h, so the gradient has a mean along the
    // hidden state h itself. A norm's Jacobian takes it away, but its own gain and bias see it first (`last_norm`).
    TokenKernel add_loss(const PredictionInput& input, const TokenKernel& stream, NormSquares& last_norm) {
        const TokenLayout& layout = input.layout;
        const double width = static_cast<double>(model_.width), classes = static_cast<double>(model_.vocabulary);
        PerToken root(layout.classes(), 1.0);
        if (P::final_norm)
            for (std::size_t i = 0; i < root.size(); ++i)
                root[i] = std::sqrt(stream[layout.diagonal(i)] + model_.epsilon);
        TokenKernel hidden(layout.entries()), logits_gradient(layout.entries());
        layout.for_each_entry(
            [&](std::size_t e, std::size_t i, std::size_t j) { hidden[e] = stream[e] / (root[i] * root[j]); });
        const double pairs = layout.tokens() * layout.tokens();
        std::vector<SoftmaxMoments> softmax(layout.classes());
        for (std::size_t i = 0; i < softmax.size(); ++i) softmax[i] = softmax_.at(classes, hidden[layout.diagonal(i)]);
        layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double scale = std::sqrt(hidden[layout.diagonal(i)] * hidden[layout.diagonal(j)]);
            const double r = scale > 0.0 ? hidden[e] / scale : 0.0;
            const double overlap = 0.5 * (softmax[i].overlap(r) + softmax[j].overlap(r));
            logits_gradient[e] = (input.same_target[e] - 2.0 / classes + overlap) / pairs;
        });
        add_value(report_.loss, expected_log_sum_exp(classes, layout.trace(hidden) / layout.tokens()));
        double lean = 0.0;
        for (std::size_t i = 0; i < softmax.size(); ++i)
            lean += (1.0 - softmax[i].concentration) / (width * static_cast<double>(softmax.size()));
        last_norm.gain = width * lean * lean * (1.0 + 2.0 * layout.inner(hidden, hidden) / pairs);
        last_norm.bias = width * lean * lean * layout.total(hidden) / pairs;
        add_square(report_.readout, width * layout.inner(logits_gradient, hidden));
        TokenKernel gradient = std::move(logits_gradient);
        for (double& g : gradient) g /= width;
        if (P::final_norm) {
            add_square(report_.final_norm.gain, width * layout.inner(gradient, hidden) + last_norm.gain);
            add_square(report_.final_norm.bias, width * layout.total(gradient) + last_norm.bias);
            layout.for_each_entry(
                [&](std::size_t e, std::size_t i, std::size_t j) { gradient[e] /= root[i] * root[j]; });
        }
        return gradient;
    }

    // A table's row gathers the gradients of all positions that read it.
    void add_embeddings(const TokenBatch& batch, const TokenLayout& layout, const TokenKernel& gradient) {
        double token = 0.0, position = 0.0;
        for (const TokenLayout::Block& block : layout.blocks())
            for (std::size_t i = 0; i < block.size; ++i)
                for (std::size_t j = 0; j < block.size; ++j) {
                    const double g = block.multiplicity * gradient[block.first + i * block.size + j];
                    if (batch.tokens[block.row + i] == batch.tokens[block.column + j]) token += g;
                    if (i == j) position += g;
                }
        const double width = static_cast<double>(model_.width);
        add_square(report_.token_embedding, width * token);
        add_square(report_.position_embedding, width * position);
    }

    double score_limit() const { return 2.0 * std::log(static_cast<double>(model_.sequence)); }
    bool scores_too_large(double variance) const { return model_.sequence > 1 && variance > score_limit(); }
    void check_scores(double variance, std::size_t layer) {
        if (!scores_too_large(variance)) return;
        if (first_affected_ == 0 || layer < first_affected_) first_affected_ = layer;
        largest_scores_ = std::fmax(largest_scores_, variance);
    }

    static void add_value(Moment& moment, double value) {
        moment.value = std::isnan(moment.value) ? value : moment.value + value;
    }
    void add_square(GradientNorm& gradient, double square) const {
        // Where tokens are all but equal, rounding can leave less than 0 of W_k's.
        if (square < 0.0) square = 0.0;
        gradient.norm = inputs_ == 1.0 ? square : gradient.norm + square;
    }
    template <class Norms>
    void add_norms(SublayerReport& sublayer, const Norms& norms) const {
        for (std::size_t i = 0; i < norms.size(); ++i) {
            add_square(sublayer.norms[i].gain, norms[i].gain);
            add_square(sublayer.norms[i].bias, norms[i].bias);
        }
    }
    static void add_stream(StreamMoments& moments, const TokenLayout& layout, const TokenKernel& kernel) {
        const double trace = layout.trace(kernel);
        add_value(moments.second_moment, trace / layout.tokens());
        const double pairs = static_cast<double>(layout.sequence() - 1) * trace;
        add_value(moments.token_correlation, pairs != 0.0 ? (layout.total_within(kernel) - trace) / pairs : 0.0);
    }

    ReferenceModel model_;
    ActivationKernel kernel_;
    SoftmaxTable softmax_;
    GradientReport report_;
    double inputs_ = 0.0;
    std::size_t first_affected_ = 0;
    double largest_scores_ = 0.0;
};

}  // namespace normplace::detail

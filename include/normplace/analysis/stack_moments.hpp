// SPDX-License-Identifier: BSD-3-Clause
//
// One stack of layers in moments, an encoder's or a decoder's: forward with the covariances of activations between
// tokens, backward with those of gradients, both into the reports of the layers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/feed_forward_moments.hpp>
#include <normplace/analysis/placement_moments.hpp>
#include <normplace/analysis/reference_model.hpp>
#include <normplace/analysis/report_sums.hpp>
#include <normplace/analysis/self_attention_moments.hpp>

namespace normplace::detail {

inline std::string rounded(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

/// Attention over n keys is described while the scores' variance is below 2 ln n, where it does not settle on one.
class ScoreRange {
public:
    explicit ScoreRange(std::size_t keys) : keys_(keys), limit_(2.0 * std::log(static_cast<double>(keys))) {}
    bool exceeded(double variance) const { return keys_ > 1 && variance > limit_; }
    void check(double variance, std::size_t layer) {
        if (!exceeded(variance)) return;
        if (first_ == 0 || layer < first_) first_ = layer;
        largest_ = std::fmax(largest_, variance);
    }
    void warn(const std::string& whose, std::vector<std::string>& warnings) const {
        if (first_ == 0) return;
        warnings.push_back(whose + " scores' variance reaches " + rounded(largest_) +
                           ", above 2 ln n = " + rounded(limit_) + " (n = " + std::to_string(keys_) +
                           "), where attention settles on single tokens: W_q and W_k have no prediction in such layers "
                           "(the first is layer " +
                           std::to_string(first_) +
                           "), and gradients at and below it are less certain, the further below the less");
    }

private:
    std::size_t keys_;
    double limit_;
    std::size_t first_ = 0;
    double largest_ = 0.0;
};

/// Where one layer's numbers go. A decoder's layer has cross-attention between the other two.
struct ReportedLayer {
    LayerReport* layer;
    CrossAttentionReport* cross_attention = nullptr;
};

/// What a decoder's layers look at beside their own stream.
class AnyMemory {
public:
    explicit AnyMemory(std::size_t tokens) : scores(tokens) {}
    virtual ~AnyMemory() = default;
    virtual std::unique_ptr<AnyAttentionMoments> attention(const TokenLayout& queries, const AttentionScales& scales,
                                                           SoftmaxTable& softmax) = 0;
    ScoreRange scores;
};

/// Fan-in times variance of every matrix of a stack.
struct StackScales {
    const AnyPlacement& placement;
    const ReferenceModel& model;
    const Depth place{};  // of the stack

    Depth depth(std::size_t layer, SublayerKind kind) const {
        return {layer, model.layers, kind, place.stack, place.other_layers};
    }
    double scale(Role role, std::size_t fan_in, std::size_t fan_out, const Depth& depth) const {
        const double gain = placement.gain(role, depth);
        return static_cast<double>(fan_in) * model.initialization.variance(role, fan_in, fan_out, depth) * gain * gain;
    }
    AttentionScales attention(std::size_t layer, SublayerKind kind) const {
        const Depth depth = this->depth(layer, kind);
        const std::size_t d = model.width;
        return {.width = static_cast<double>(d),
                .query = scale(Role::query, d, d, depth),
                .key = scale(Role::key, d, d, depth),
                .value = scale(Role::value, d, d, depth),
                .out = model.output_projection ? scale(Role::out, d, d, depth) : 1.0,
                .output_projection = model.output_projection,
                .causal = model.causal,
                .heads = static_cast<double>(model.heads),
                .norms = placement.inside(depth),
                .epsilon = model.epsilon};
    }
    FeedForwardScales feed_forward(std::size_t layer) const {
        const Depth depth = this->depth(layer, SublayerKind::feed_forward);
        return {.width = static_cast<double>(model.width),
                .feed_forward = static_cast<double>(model.feed_forward),
                .linear1 = scale(Role::linear1, model.width, model.feed_forward, depth),
                .linear2 = scale(Role::linear2, model.feed_forward, model.width, depth),
                .hidden_norm = placement.inside(depth).hidden,
                .hidden_centred = model.norm == NormKind::layer_norm || model.norm == NormKind::unit_offset_layer_norm,
                .epsilon = model.epsilon};
    }
};

class StackMoments {
public:
    /// @param model the sizes of this stack
    /// @param memory null for a stack without cross-attention
    /// @param place of the stack: alone, or in an encoder-decoder; its layer and sublayer do not matter
    StackMoments(const AnyPlacement& placement, const ReferenceModel& model, ActivationKernel& kernel,
                 SoftmaxTable& softmax, const Depth& place, AnyMemory* memory = nullptr)
        : placement_(placement),
          model_(model),
          place_(place),
          plans_(placement.formula),
          kernel_(kernel),
          softmax_(softmax),
          memory_(memory) {}

    void forward(const TokenLayout& layout, const TokenKernel& stream, const std::vector<ReportedLayer>& layers,
                 ScoreRange& scores, const ReportSums& sums) {
        // Only what enters each block is kept; backward runs the block forward once more.
        start(stream);
        streams_.reserve((memory_ ? 3 : 2) * model_.layers + 1);
        for (std::size_t l = 1; l <= model_.layers; ++l) {
            const ReportedLayer& report = layers[l - 1];
            const auto run = [&](SublayerKind kind, SublayerMoments& sublayer, SublayerReport& sublayer_report) {
                BlockMoments& block = make(layout, l, kind, sublayer);
                fluctuations_.push_back(fluctuations_.back());
                streams_.push_back(block.forward(streams_.back(), fluctuations_.back()));
                branches_.push_back(branches_.back() + block.branch_square());
                sums.add_branch(sublayer_report, block.branch_square());
                sums.add(sublayer_report.stream, layout, streams_.back()[0]);
            };
            AttentionMoments attention(layout, scales_.attention(l, SublayerKind::attention), softmax_);
            run(SublayerKind::attention, attention, report.layer->attention);
            scores.check(attention.score_variance(), l);
            if (memory_) {
                const auto cross =
                    memory_->attention(layout, scales_.attention(l, SublayerKind::cross_attention), softmax_);
                run(SublayerKind::cross_attention, *cross, *report.cross_attention);
                memory_->scores.check(cross->score_variance(), l);
            }
            FeedForwardMoments feed_forward(layout, scales_.feed_forward(l), kernel_);
            run(SublayerKind::feed_forward, feed_forward, report.layer->feed_forward);
        }
    }

    /// The streams as they leave the last layer.
    const StreamKernels& output() const { return streams_.back(); }
    const StreamFluctuations& output_fluctuations() const { return fluctuations_.back(); }

    /// From the gradient where the streams leave the last layer to that at the stack's input. `last_norm` is added to
    /// the norm that ends the last block, if one does. Uses forward's state up.
    TokenKernel backward(const TokenLayout& layout, StreamKernels gradient, const std::vector<ReportedLayer>& layers,
                         const NormSquares& last_norm, const ScoreRange& scores, const ReportSums& sums) {
        std::vector<std::pair<Label, double>> lent;  // squared gradients of gates that a layer's blocks share
        for (std::size_t l = model_.layers; l >= 1; --l) {
            const ReportedLayer& report = layers[l - 1];
            const auto run = [&](SublayerKind kind, SublayerMoments& sublayer, SublayerReport& sublayer_report) {
                sums.add_gradient(sublayer_report.stream, layout, gradient[0]);
                streams_.pop_back();
                fluctuations_.pop_back();
                branches_.pop_back();
                BlockMoments& block = make(layout, l, kind, sublayer);
                block.prepare(streams_.back(), fluctuations_.back());
                gradient = block.backward(gradient);
                if (kind == SublayerKind::feed_forward && l == model_.layers)
                    add_to_closing_norm(scales_.depth(l, kind), last_norm, block);
                block.lend_gates(lent);
                if (kind == SublayerKind::attention) lent.clear();
                sums.add(sublayer_report, block, sublayer);
            };
            LayerReport& layer = *report.layer;
            FeedForwardMoments feed_forward(layout, scales_.feed_forward(l), kernel_);
            run(SublayerKind::feed_forward, feed_forward, layer.feed_forward);
            const FeedForwardSquares& s = feed_forward.squares;
            sums.add(layer.w1, s.w1), sums.add(layer.w2, s.w2), sums.add(layer.b1, s.b1), sums.add(layer.b2, s.b2);
            if (memory_) {
                const auto cross =
                    memory_->attention(layout, scales_.attention(l, SublayerKind::cross_attention), softmax_);
                run(SublayerKind::cross_attention, *cross, *report.cross_attention);
                add(*report.cross_attention, cross->squares, memory_->scores.exceeded(cross->score_variance()), sums);
            }
            AttentionMoments attention(layout, scales_.attention(l, SublayerKind::attention), softmax_);
            run(SublayerKind::attention, attention, layer.attention);
            add(layer, attention.squares, scores.exceeded(attention.score_variance()), sums);
        }
        return input_gradient(gradient);
    }

private:
    /// Every stream starts as the stack's input.
    void start(const TokenKernel& input) {
        const double width = static_cast<double>(model_.width);
        const std::size_t count = placement_.streams();
        StreamKernels first(count);
        StreamFluctuations fluctuations(count);
        for (std::size_t s = 0; s < count; ++s) {
            for (std::size_t t = 0; t < count; ++t) first(s, t) = input;
            fluctuations[s] = {0.0, 1.0 / width, 2.0 / width, 0.0};
        }
        streams_.assign(1, std::move(first));
        fluctuations_.assign(1, std::move(fluctuations));
        branches_.assign(1, 0.0);
    }
    static TokenKernel input_gradient(const StreamKernels& gradient) {
        TokenKernel sum = gradient[0];
        for (std::size_t s = 0; s < gradient.streams(); ++s)
            for (std::size_t t = 0; t < gradient.streams(); ++t)
                if (s + t > 0)
                    for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += gradient(s, t)[e];
        return sum;
    }

    /// One block after another, in the same memory.
    BlockMoments& make(const TokenLayout& layout, std::size_t layer, SublayerKind kind, SublayerMoments& sublayer) {
        Depth depth = scales_.depth(layer, kind);
        depth.earlier_branches = branches_.back();
        const Plan& plan = plans_.at(depth);
        if (block_) block_->become(plan, sublayer);
        else block_.emplace(plan, layout, static_cast<double>(model_.width), norm_, sublayer);
        return *block_;
    }
    void add_to_closing_norm(const Depth& depth, const NormSquares& last_norm, BlockMoments& block) {
        const Plan& plan = plans_.at(depth);
        if (!is_norm(plan, plan.results[0]) || !normalises(norm_.kind)) return;
        NormSquares& norm = block.norms[plan.steps[plan.results[0][0].source - plan.streams].index];
        const NormSquares more = norm_.own(last_norm);
        norm.gain += more.gain;
        norm.bias += more.bias;
    }
    /// W_q and W_k have no prediction where the scores are too large.
    template <class Report>
    void add(Report& report, AttentionSquares s, bool scores_too_large, const ReportSums& sums) const {
        if (scores_too_large) s.wq = s.wk = s.bq = not_available;
        sums.add(report.wq, s.wq), sums.add(report.wk, s.wk), sums.add(report.wv, s.wv);
        sums.add(report.bq, s.bq), sums.add(report.bk, s.bk), sums.add(report.bv, s.bv);
        if (model_.output_projection) sums.add(report.wo, s.wo), sums.add(report.bo, s.bo);
    }

    const AnyPlacement placement_;
    const ReferenceModel model_;
    const Depth place_;
    Plans plans_;
    const NormMoments norm_{model_.norm, static_cast<double>(model_.width), model_.epsilon};
    const StackScales scales_{placement_, model_, place_};
    ActivationKernel& kernel_;
    SoftmaxTable& softmax_;
    AnyMemory* memory_;
    std::optional<BlockMoments> block_;
    std::vector<StreamKernels> streams_;
    std::vector<StreamFluctuations> fluctuations_;
    std::vector<double> branches_;  // the sum of E f(x)^2 over the sublayers so far
};

}  // namespace normplace::detail
